#include "plimsoll/train/checkpoint_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/descriptor.h"
#include "plimsoll/base/error.h"
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

int64_t staging_bytes_for(int64_t tensor_bytes, int64_t budget_bytes) {
  const int64_t wanted = align_up(tensor_bytes + kMostBlock / 4, int64_t{64} * kKiB);
  return std::clamp(std::min(wanted, budget_bytes / kBudgetShare), kLeastStaging, kMostStaging);
}

CheckpointFolder::CheckpointFolder(std::string folder, int64_t keep, int64_t staging_bytes)
    : folder_(std::move(folder)), keep_(keep), block_bytes_(whole_blocks(staging_bytes)) {
  if (keep_ < 1) throw ArgumentError(fmt::format("{} checkpoints are to be kept, expected 1 at least", keep_));
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw SystemError::from_errno(fmt::format("making the folder {}", quote(folder_)), error.value());
  lock_fd_ = keep_apart(open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock_fd_ < 0) throw SystemError::from_errno(fmt::format("opening the folder {}", quote(folder_)), errno);
  if (flock(lock_fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(lock_fd_);
    throw SystemError(fmt::format("another run writes checkpoints to {}: give it a folder of its own", quote(folder_)));
  }
  remove_unfinished(folder_);
  blocks_.resize(static_cast<size_t>(std::max<int64_t>(2, staging_bytes / block_bytes_)));
  for (Block& block : blocks_) {
    block.memory.reset(new std::byte[static_cast<size_t>(block_bytes_)]);  // its pages are taken when it is filled
    free_.push_back(&block);
  }
  thread_ = std::thread([this] { write_files(); });
}

CheckpointFolder::~CheckpointFolder() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  close(lock_fd_);
}

void CheckpointFolder::save(const std::vector<KeptTensor>& tensors, const RunState& state) {
  wait();
  {
    const std::lock_guard lock(mutex_);
    asked_.push_back(state.step);
  }
  changed_.notify_all();
  Filled end;
  try {
    stream_checkpoint(tensors, state, block_bytes_, [&](int64_t bytes, const FillBytes& fill) {
      Block* block = take_free();
      block->bytes = bytes;
      try {
        fill(std::span(block->memory.get(), static_cast<size_t>(bytes)));
      } catch (...) {
        give_back(block);
        throw;
      }
      push_filled({block});
    });
  } catch (const Error& error) {
    end.error = error.what();
  }
  push_filled(std::move(end));
}

void CheckpointFolder::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return asked_.empty() && !is_writing_; });
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

// To the end of what is filled, also where writing has failed: the one who fills waits for blocks.
void CheckpointFolder::write_one(int64_t step) {
  Outcome outcome{step, (fs::path(folder_) / name_of(step)).string(), {}};
  std::optional<CheckpointFile> file;
  const auto attempt = [&](const auto& f) {
    if (!outcome.error.empty()) return;
    try {
      f();
    } catch (const Error& error) {
      outcome.error = error.what();
      file.reset();
    }
  };
  attempt([&] { file.emplace(outcome.path); });
  Filled filled = take_filled();
  for (; filled.block != nullptr; filled = take_filled()) {
    const Block& block = *filled.block;
    attempt([&] { file->write(std::span(block.memory.get(), static_cast<size_t>(block.bytes))); });
    give_back(filled.block);
  }
  attempt([&] {
    if (!filled.error.empty()) throw SystemError(filled.error);
    file->finish();
    publish(outcome.path);
    remove_old();
  });
  const std::lock_guard lock(mutex_);
  outcomes_.push_back(std::move(outcome));
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
