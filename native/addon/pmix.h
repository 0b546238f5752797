// The PMIx client that Open MPI's mpirun, Slurm's srun (--mpi=pmix) and others serve, loaded at run time: values that all ranks of a job tell each
// other. Calls wait for the others, so they run on a thread of Node's pool, and return promises.
#pragma once
#include <napi.h>

namespace nbc::addon {

// pmixOpen(): { rank, size }. pmixExchange(name, value, seconds): the values of all ranks. pmixClose().
void export_pmix(Napi::Env env, Napi::Object exports);

}  // namespace nbc::addon
