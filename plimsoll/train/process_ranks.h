// The ranks that this process is one of, as a launcher started them: found once, for the process. The failure of one
// ends all.
#pragma once

#include <memory>
#include <string>

#include "plimsoll/base/budget.h"
#include "plimsoll/device/communicator.h"

namespace plimsoll::train {

// Joins them, for this thread's kernels, too; nothing where this process runs alone.
std::shared_ptr<device::Communicator> join_ranks();
// What was joined.
const std::shared_ptr<device::Communicator>& joined_ranks();

// Where `device` is a card: takes this rank's, with collectives between the cards of all (device/cuda/card_ranks.h),
// and gives its name; called by every rank. Another device stays as it is.
std::string join_cards(const std::string& device);

// Ends all ranks, after an error of this one was told.
void abort_ranks(int status);
// At the end of this process: waits until the others have come to theirs.
void leave_ranks();

// The least that any rank has. What a machine can give is shared by the ranks on it; a card is its rank's alone.
Budget agreed_budget(const Budget& budget, bool is_of_machine);
// Threads of each rank: as asked, else (0) its share of the processors, the same on all. As asked for a process alone.
int agreed_threads(int asked);

}  // namespace plimsoll::train
