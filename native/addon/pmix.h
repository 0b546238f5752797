// The PMIx client that Open MPI's mpirun, Slurm's srun (--mpi=pmix) and others serve, loaded at run time: values that
// all ranks of a job tell each other. A call waits for all ranks and may never return. So each call runs on its own
// thread, and returns a socket from which its answer is read.
#pragma once
#include <napi.h>

namespace nbc::addon {

// pmixOpen(): rank and size. pmixExchange(name, value, seconds): the values of all ranks. pmixMissing(name, seconds):
// ranks without one. pmixClose().
void export_pmix(Napi::Env env, Napi::Object exports);

}  // namespace nbc::addon
