/* mpi_device - buffers that are a GPU's, which only a CUDA-aware MPI takes. */
#ifndef DROVER_MPI_DEVICE_H
#define DROVER_MPI_DEVICE_H

#include <stdbool.h>

/* Whether the driver's library is in this process. Called when a communicator is opened: a program
 * that uses a GPU has it by then, and no other loads it for this. */
bool mpi_device_find(void);

/* Whether the memory is a GPU's. False where no driver was found. */
bool mpi_device_has(const void *p);

/* Whether this MPI was built for such memory (MPIX_Query_cuda_support). */
bool mpi_device_aware(void);

#endif
