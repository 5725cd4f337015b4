// Ranks that a launcher of MPI started: mpirun, or srun with PMIx. Open MPI's library is loaded when ranks are found,
// by dlopen: a process that runs alone has nothing of it. Which rank this process is, MPI says; nothing is configured.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "plimsoll/device/communicator.h"

namespace plimsoll::device {

// How many ranks the launcher says that it started, by its environment variables; nothing where there is none.
std::optional<int> launched_ranks();

// Joins the ranks of the launcher; nothing where this process was started alone. Once in a process: MPI cannot be
// started again. When the communicator dies, this rank leaves, which waits for the others. UnsupportedError when the
// library is not there, or the launcher is of another MPI.
std::shared_ptr<Communicator> join_mpi();

}  // namespace plimsoll::device
