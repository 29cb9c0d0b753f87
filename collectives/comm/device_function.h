/* device_function - begins the definition of a function for the host and for CUDA's kernels. */
#pragma once

#ifdef __CUDACC__
#define DEVICE_FUNCTION static inline __host__ __device__
#else
#define DEVICE_FUNCTION static inline
#endif
