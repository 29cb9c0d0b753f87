/* mpi_device - detects GPU buffers, which only a CUDA-aware MPI supports. */
#ifndef DROVER_MPI_DEVICE_H
#define DROVER_MPI_DEVICE_H

#include <stdbool.h>

/* Returns true if CUDA's driver library is loaded in this process. Called when a communicator is
 * opened: a program that uses a GPU has then loaded the library. This function does not load it. */
bool mpi_device_find(void);

/* Returns true if the memory is on a GPU; false if no driver was found. */
bool mpi_device_has(const void *p);

/* Returns true if this MPI is CUDA-aware (MPIX_Query_cuda_support). */
bool mpi_device_aware(void);

#endif
