// A stand-in for NCCL (libnccl.so.2) over the stand-in driver: ranks are threads of one process. A collective runs when
// the streams of all ranks have come to it, sums from rank 0 to the last, and must be the same on all of them. It is
// work of its stream, so it runs late, and goes into graphs. Calls can be made to fail (stand_in_fail_at). As the real
// one, it refuses two ranks on one card.
#pragma once

#include <cstddef>
#include <cstdint>

struct StandInNcclCounts {
  int64_t communicators = 0;  // that exist now
  int64_t collectives = 0;    // that all ranks had, since the last reset
  int64_t differing = 0;      // in which ranks had others than rank 0
};
StandInNcclCounts stand_in_nccl_counts();

// Forgets counts; a communicator takes so many bytes of its card from then on, and says that it is of this version.
void stand_in_nccl_reset(size_t bytes_of_communicator = size_t{1} << 20, int version = 22803);
