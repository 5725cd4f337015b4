#include "plimsoll/train/checkpoint_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/descriptor.h"
#include "plimsoll/base/error.h"
#include "plimsoll/device/gather.h"
#include "plimsoll/train/checkpoint_file.h"

namespace plimsoll::train {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostStaging = 31 * kMiB;  // blocks on the heap and the writer take a little more: 32 together
constexpr int64_t kLeastStaging = 128 * kKiB;
constexpr int64_t kBudgetShare = 32;
constexpr int64_t kMostBlock = kMiB;
constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kSuffix = ".safetensors";
constexpr const char* kLatest = "latest";

std::string name_of(int64_t step) { return fmt::format("{}{:08}{}", kPrefix, step, kSuffix); }

std::optional<int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return step;
}

struct Found {
  int64_t step;
  std::string path;
};

// The checkpoints in a folder, the newest last.
std::vector<Found> checkpoints_in(const std::string& folder) {
  std::vector<Found> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (const auto step = step_of(entry.path().filename().string())) found.push_back({*step, entry.path().string()});
  }
  std::sort(found.begin(), found.end(), [](const Found& one, const Found& other) { return one.step < other.step; });
  return found;
}

void remove_unfinished(const std::string& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(fmt::format(".{}", kPrefix)) && name.ends_with(".part")) fs::remove(entry.path(), error);
  }
}

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw SystemError::from_errno(fmt::format("making the folder {}", quote(folder)), error.value());
}

// An empty file that a folder which cannot be written to refuses.
void make_probe(const std::string& path) {
  const int fd = keep_apart(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
  const int error = errno;
  if (fd < 0) {
    throw SystemError::from_errno(fmt::format("writing to the folder {}", quote(fs::path(path).parent_path().string())),
                                  error);
  }
  close(fd);
}

int64_t whole_blocks(int64_t staging_bytes) {
  return std::max(int64_t{64} * kKiB, std::min(kMostBlock, staging_bytes / 2) / 4096 * 4096);
}

}  // namespace

std::optional<std::string> newest_checkpoint(const std::string& folder) {
  std::error_code error;
  const fs::path linked = fs::read_symlink(fs::path(folder) / kLatest, error);
  if (!error && fs::exists(fs::path(folder) / linked, error)) return (fs::path(folder) / linked).string();
  const std::vector<Found> found = checkpoints_in(folder);
  return found.empty() ? std::nullopt : std::optional(found.back().path);
}

bool is_shared_folder(const std::string& folder, const RankPart& part) {
  const int64_t now = std::chrono::system_clock::now().time_since_epoch().count();
  const std::string name =
      device::broadcast_text(*part.ranks, fmt::format(".{}shared-{}-{}.part", kPrefix, getpid(), now));
  const std::string probe = (fs::path(folder) / name).string();
  const bool is_first = part.ranks->rank() == 0;
  if (is_first) {
    make_folder(folder);
    make_probe(probe);
  }
  // What a run before left there says nothing: each asks for the words that rank 0 has written now.
  part.ranks->barrier();
  const bool sees = device::least_over(*part.ranks, fs::exists(probe) ? 1 : 0) == 1;
  if (is_first) unlink(probe.c_str());
  return sees;
}

int64_t staging_bytes_for(int64_t tensor_bytes, int64_t budget_bytes) {
  const int64_t wanted = align_up(tensor_bytes + kMostBlock / 4, int64_t{64} * kKiB);
  return std::clamp(std::min(wanted, budget_bytes / kBudgetShare), kLeastStaging, kMostStaging);
}

CheckpointFolder::CheckpointFolder(std::string folder, int64_t keep, int64_t staging_bytes, RankPart part)
    : folder_(std::move(folder)), keep_(keep), part_(std::move(part)), block_bytes_(whole_blocks(staging_bytes)) {
  if (keep_ < 1) throw ArgumentError(fmt::format("{} checkpoints are to be kept, expected 1 at least", keep_));
  if (part_.is_first()) start_folder();
  blocks_.resize(static_cast<size_t>(std::max<int64_t>(2, staging_bytes / block_bytes_)));
  for (Block& block : blocks_) {
    block.memory.reset(new std::byte[static_cast<size_t>(block_bytes_)]);  // its pages are taken when it is filled
    free_.push_back(&block);
  }
  thread_ = std::thread([this] { write_files(); });
}

void CheckpointFolder::start_folder() {
  make_folder(folder_);
  const std::string probe = (fs::path(folder_) / fmt::format(".{}probe-{}.part", kPrefix, getpid())).string();
  make_probe(probe);
  unlink(probe.c_str());
  lock_fd_ = keep_apart(open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock_fd_ < 0) throw SystemError::from_errno(fmt::format("opening the folder {}", quote(folder_)), errno);
  if (flock(lock_fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(lock_fd_);
    throw SystemError(fmt::format("another run writes checkpoints to {}: give it a folder of its own", quote(folder_)));
  }
  remove_unfinished(folder_);
}

CheckpointFolder::~CheckpointFolder() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (lock_fd_ >= 0) close(lock_fd_);
}

std::string CheckpointFolder::path_of(int64_t step) const { return (fs::path(folder_) / name_of(step)).string(); }

void CheckpointFolder::save(const std::vector<KeptTensor>& tensors, const RunState& state) {
  wait();
  if (part_ && !starts_file(tensors, state)) return;
  {
    const std::lock_guard lock(mutex_);
    asked_.push_back(state.step);
  }
  changed_.notify_all();
  Filled end;
  try {
    stream_part(tensors, state, part_, block_bytes_, [&](int64_t at, int64_t bytes, const FillBytes& fill) {
      Block* block = take_free();
      block->at = at;
      block->bytes = bytes;
      try {
        fill(std::span(block->memory.get(), static_cast<size_t>(bytes)));
      } catch (...) {
        give_back(block);
        throw;
      }
      push_filled({block});
    });
  } catch (const std::exception& error) {  // of any kind: the writer waits for the end
    end.error = error.what();
  }
  push_filled(std::move(end));
}

// Whether there is a file now for all ranks to write to.
bool CheckpointFolder::starts_file(const std::vector<KeptTensor>& tensors, const RunState& state) {
  std::string error;
  try {
    if (part_.is_first()) make_shared_file(path_of(state.step), bytes_of_checkpoint(tensors, state));
  } catch (const Error& failed) {
    error = failed.what();
  }
  has_parts_ = device::least_over(*part_.ranks, error.empty() ? 1 : 0) == 1;
  if (!has_parts_) {
    const std::lock_guard lock(mutex_);
    outcomes_.push_back({state.step, path_of(state.step), error.empty() ? "rank 0 could not begin it" : error});
  }
  return has_parts_;
}

void CheckpointFolder::wait_for_own() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return asked_.empty() && !is_writing_; });
}

void CheckpointFolder::wait() {
  wait_for_own();
  if (has_parts_) conclude();
}

void CheckpointFolder::poll() {
  if (!has_parts_) return;
  bool is_done = false;
  {
    const std::lock_guard lock(mutex_);
    is_done = own_.has_value();
  }
  if (device::least_over(*part_.ranks, is_done ? 1 : 0) == 1) conclude();
}

// All ranks have written their parts, or come here when they have: whole where none has failed.
void CheckpointFolder::conclude() {
  has_parts_ = false;
  Outcome outcome;
  {
    const std::lock_guard lock(mutex_);
    outcome = *std::exchange(own_, std::nullopt);
  }
  const std::vector<std::string> errors = device::gather_texts(*part_.ranks, std::exchange(outcome.error, ""));
  for (size_t rank = 0; rank < errors.size() && outcome.error.empty(); ++rank) {
    if (!errors[rank].empty()) outcome.error = fmt::format("rank {}: {}", rank, errors[rank]);
  }
  if (part_.is_first()) {
    try {
      outcome.error.empty() ? finish_shared(outcome.path) : discard_shared_file(outcome.path);
    } catch (const Error& error) {
      outcome.error = error.what();
    }
  }
  const std::lock_guard lock(mutex_);
  outcomes_.push_back(std::move(outcome));
}

void CheckpointFolder::finish_shared(const std::string& path) {
  name_shared_file(path);
  publish(path);
  remove_old();
}

std::vector<CheckpointFolder::Outcome> CheckpointFolder::outcomes() {
  const std::lock_guard lock(mutex_);
  return std::exchange(outcomes_, {});
}

void CheckpointFolder::write_files() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_ending_ || !asked_.empty(); });
    if (asked_.empty()) return;
    const int64_t step = asked_.front();
    asked_.pop_front();
    is_writing_ = true;
    lock.unlock();
    write_one(step);
    lock.lock();
    is_writing_ = false;
    changed_.notify_all();
  }
}

void CheckpointFolder::write_one(int64_t step) {
  Outcome outcome{step, path_of(step), {}};
  if (part_) {
    std::optional<CheckpointPart> file;
    outcome.error = write_blocks(file, outcome.path, [&] { file->finish(); });
    const std::lock_guard lock(mutex_);
    own_ = std::move(outcome);
    return;
  }
  std::optional<CheckpointFile> file;
  outcome.error = write_blocks(file, outcome.path, [&] {
    file->finish();
    publish(outcome.path);
    remove_old();
  });
  const std::lock_guard lock(mutex_);
  outcomes_.push_back(std::move(outcome));
}

// To the end of what is filled, also where writing has failed: the one who fills waits for blocks. Returns why it did.
template <class File, class F>
std::string CheckpointFolder::write_blocks(std::optional<File>& file, const std::string& path, const F& finish) {
  std::string failed;
  const auto attempt = [&](const auto& f) {
    if (!failed.empty()) return;
    try {
      f();
    } catch (const std::exception& error) {
      failed = error.what();
      file.reset();
    }
  };
  attempt([&] { file.emplace(path); });
  Filled filled = take_filled();
  for (; filled.block != nullptr; filled = take_filled()) {
    const Block& block = *filled.block;
    attempt([&] { file->write(block.at, std::span(block.memory.get(), static_cast<size_t>(block.bytes))); });
    give_back(filled.block);
  }
  attempt([&] {
    if (!filled.error.empty()) throw SystemError(filled.error);
    finish();
  });
  return failed;
}

CheckpointFolder::Block* CheckpointFolder::take_free() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !free_.empty(); });
  Block* block = free_.front();
  free_.pop_front();
  return block;
}

void CheckpointFolder::push_filled(Filled filled) {
  const std::lock_guard lock(mutex_);
  filled_.push_back(std::move(filled));
  changed_.notify_all();
}

CheckpointFolder::Filled CheckpointFolder::take_filled() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !filled_.empty(); });
  Filled filled = std::move(filled_.front());
  filled_.pop_front();
  return filled;
}

void CheckpointFolder::give_back(Block* block) {
  const std::lock_guard lock(mutex_);
  free_.push_back(block);
  changed_.notify_all();
}

// A link under another name first: `latest` is the old one or the new one at every moment.
void CheckpointFolder::publish(const std::string& path) {
  const fs::path folder(folder_);
  const std::string next = (folder / fmt::format(".{}latest.part", kPrefix)).string();
  unlink(next.c_str());
  if (symlink(fs::path(path).filename().c_str(), next.c_str()) != 0 ||
      rename(next.c_str(), (folder / kLatest).c_str()) != 0) {
    throw SystemError::from_errno(fmt::format("linking {} to {}", quote((folder / kLatest).string()), quote(path)),
                                  errno);
  }
  sync_folder(folder_);
}

void CheckpointFolder::remove_old() const {
  const std::vector<Found> found = checkpoints_in(folder_);
  const std::optional<std::string> newest = newest_checkpoint(folder_);
  const auto all = static_cast<int64_t>(found.size());
  for (int64_t i = 0; i < all - keep_; ++i) {
    if (newest != found[static_cast<size_t>(i)].path) unlink(found[static_cast<size_t>(i)].path.c_str());
  }
}

}  // namespace plimsoll::train
