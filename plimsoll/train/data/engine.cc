#include "plimsoll/train/data/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "plimsoll/base/bytes.h"
#include "plimsoll/train/data/adaptors.h"

namespace plimsoll::train::data {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kClaimNs = 50'000;
constexpr int64_t kDefaultBytes = 256 * kMiB;
constexpr int64_t kFirstDepth = 2;
constexpr int64_t kMostDepth = 64;
constexpr int kMostWorkers = 64;
constexpr size_t kMostMessages = 20;
constexpr int64_t kFirstTraceId = int64_t{1} << 40;  // apart from the ids of pools that use the same recorder

void check_part(const PipelineOptions& options) {
  const BatchPart& part = options.part;
  if (part.first < 0 || part.samples < 0 || part.first + part.samples > options.batch) {
    throw ArgumentError(fmt::format("samples {} to {} are no part of a batch of {}", part.first,
                                    part.first + part.samples, options.batch));
  }
  if (part.samples > 0 && !options.drop_last && !options.fill_last) {
    throw ArgumentError("parts are of whole batches: drop the last one, or fill it up");
  }
}

PipelineOptions checked(const PipelineOptions& options, const Source& source) {
  if (options.batch < 1) throw ArgumentError(fmt::format("a batch of {} samples: expected 1 or more", options.batch));
  if (options.workers < 0 || options.workers > kMostWorkers) {
    throw ArgumentError(fmt::format("{} workers: expected 1 to {}, or 0 for automatic", options.workers, kMostWorkers));
  }
  if (options.prefetch < 0 || options.prefetch > kMostDepth) {
    throw ArgumentError(fmt::format("prefetch {}: expected 1 to {}, or 0 for automatic", options.prefetch, kMostDepth));
  }
  if (options.shuffle_buffer < 0 || options.max_bytes < 0 || options.augment.crop_padding < 0) {
    throw ArgumentError("a shuffle buffer, a bound of bytes and a crop's padding are 0 or more");
  }
  if (source.size() < 1) throw ArgumentError(fmt::format("there are no samples: {}", source.describe()));
  if (options.drop_last && source.size() < options.batch) {
    throw ArgumentError(fmt::format("a batch of {} samples, but the data has {}: every batch would be dropped",
                                    options.batch, source.size()));
  }
  if (options.drop_last && options.fill_last) throw ArgumentError("the last batch is either dropped or filled up");
  check_part(options);
  return options;
}

// In the largest batch, or this reader's part of it.
int64_t buffered_samples(const PipelineOptions& options, const Source& source) {
  if (options.part.samples > 0) return options.part.samples;
  return options.fill_last ? options.batch : std::min(options.batch, source.size());
}

std::shared_ptr<const Source> augmented(std::shared_ptr<const Source> source, const Augment& options) {
  if (options.crop_padding == 0 && !options.flip) return source;
  return augment(std::move(source), options);
}

int first_max_workers(const PipelineOptions& options) {
  if (options.workers > 0) return options.workers;
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMostWorkers);
}

}  // namespace

Pipeline::Engine::Engine(std::shared_ptr<const Source> source, const PipelineOptions& options)
    : source_(augmented(std::move(source), options.augment)),
      options_(checked(options, *source_)),
      layout_(source_->fields(), buffered_samples(options_, *source_), options.pinned_for),
      max_bytes_(0),
      depth_(options.prefetch > 0 ? options.prefetch : kFirstDepth),
      max_workers_(first_max_workers(options)),
      active_(options.workers > 0 ? options.workers : 1) {
  if (options_.recorder != nullptr) tag_ = options_.recorder->intern(Category::input, "data");
  const int64_t bytes = std::max(kDefaultBytes, source_->memory_bytes() + 2 * layout_.bytes);
  set_max_bytes(options_.max_bytes == 0 ? bytes : options_.max_bytes);
}

Pipeline::Engine::~Engine() {
  for (auto* buffers : {&spare_, &in_use_}) {
    for (auto& buffer : *buffers) discard(std::move(buffer));
  }
  for (auto& buffer : pending_) discard(std::move(buffer));
}

void Pipeline::Engine::stop() {
  {
    const Lock lock(mutex_);
    stopping_ = true;
    work_.notify_all();
  }
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

int64_t Pipeline::Engine::epoch_samples() const {
  const int64_t size = source_->size();
  if (options_.fill_last) return align_up(size, options_.batch);
  return options_.drop_last ? size / options_.batch * options_.batch : size;
}

EpochOrder Pipeline::Engine::order_of(int64_t epoch) const {
  return EpochOrder({source_->size(), options_.shuffle, options_.shuffle_buffer, options_.seed}, epoch);
}

// ---- filling ----

void Pipeline::Engine::work(int number) {
  Lock lock(mutex_);
  while (!stopping_) {
    const Claim claimed = number < active_ ? claim() : Claim{};
    if (claimed.buffer == nullptr) {
      work_.wait(lock);
      continue;
    }
    if (has_work()) work_.notify_one();  // each that wakes up wakes up the next
    lock.unlock();
    fill(claimed);
    lock.lock();
  }
}

bool Pipeline::Engine::has_room() const {
  if (failure_ || static_cast<int64_t>(pending_.size()) >= depth_) return false;
  return !spare_.empty() || buffers_ < std::min(most_had_, most_buffers(max_bytes_));
}

bool Pipeline::Engine::has_work() const {
  const auto unclaimed = [](const auto& buffer) { return buffer->claimed < buffer->count; };
  return has_room() || std::any_of(pending_.begin(), pending_.end(), unclaimed);
}

// Where the system has no memory for another buffer those that there are have to do.
bool Pipeline::Engine::has_spare() {
  if (!spare_.empty()) return true;
  try {
    spare_.push_back(std::make_unique<BatchBuffer>(layout_));
  } catch (const SystemError&) {
    if (buffers_ == 0) throw;  // to the caller of next(), who makes the first one
    most_had_ = buffers_;
    return false;
  }
  spare_.back()->id = kFirstTraceId + made_++;
  ++buffers_;
  if (options_.recorder != nullptr) options_.recorder->record_alloc(spare_.back()->id, layout_.bytes, tag_);
  note_memory();
  return true;
}

BatchBuffer* Pipeline::Engine::assign() {
  if (!has_room() || !has_spare()) return nullptr;
  pending_.push_back(std::move(spare_.back()));
  spare_.pop_back();
  BatchBuffer& buffer = *pending_.back();
  buffer.epoch = assigned_.epoch;
  buffer.begins = options_.part.first;
  buffer.place = assigned_.sample + buffer.begins;
  buffer.whole = batch_from(assigned_.sample);
  buffer.count = options_.part.samples > 0 ? options_.part.samples : buffer.whole;
  buffer.claimed = buffer.filled = 0;
  buffer.failed_row = -1;
  buffer.failure = nullptr;
  assigned_.sample += buffer.whole;
  if (assigned_.sample >= epoch_samples()) assigned_ = {assigned_.epoch + 1, 0};
  return &buffer;
}

Pipeline::Engine::Claim Pipeline::Engine::claim() {
  for (const auto& buffer : pending_) {
    if (buffer->claimed < buffer->count) return claim_rows(*buffer);
  }
  BatchBuffer* buffer = assign();
  return buffer == nullptr ? Claim{} : claim_rows(*buffer);
}

// So few that all who fill share a batch, but for some work at least: to take rows takes time, too.
Pipeline::Engine::Claim Pipeline::Engine::claim_rows(BatchBuffer& buffer) {
  const int64_t enough = row_ns_ > 0 ? static_cast<int64_t>(kClaimNs / row_ns_) : buffer.count / 8;
  const int64_t some = std::clamp<int64_t>(enough, 1, buffer.count);
  const Claim claimed{&buffer, buffer.claimed, std::min(buffer.count, buffer.claimed + some)};
  buffer.claimed = claimed.end;
  return claimed;
}

void Pipeline::Engine::fill(const Claim& claim) {
  EpochOrder order = order_of(claim.buffer->epoch);
  int64_t row = claim.first;
  std::exception_ptr failure;
  const auto start = Clock::now();
  try {
    std::vector<std::span<std::byte>> into;
    for (; row < claim.end; ++row) {
      claim.buffer->row(row, into);
      read_row(*claim.buffer, row, order((claim.buffer->place + row) % source_->size()), into);
    }
  } catch (...) {
    failure = std::current_exception();
  }
  const double ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  const Lock lock(mutex_);
  row_ns_ = 0.75 * row_ns_ + 0.25 * std::max(1.0, ns / static_cast<double>(claim.end - claim.first));
  complete(claim, row, failure);
}

void Pipeline::Engine::complete(const Claim& claim, int64_t failed_row, const std::exception_ptr& failure) {
  BatchBuffer& buffer = *claim.buffer;
  buffer.filled += claim.end - claim.first;
  if (failure && (buffer.failed_row < 0 || failed_row < buffer.failed_row)) {
    buffer.failed_row = failed_row;
    buffer.failure = failure;
  }
  note_memory();
  if (is_ready(buffer) || buffer.claimed == buffer.count) filled_.notify_all();
}

// A sample that cannot be read is replaced by the next one of the source that can, so batches stay whole and do not
// depend on who reads what when.
void Pipeline::Engine::read_row(const BatchBuffer& buffer, int64_t row, int64_t index, SampleMemory into) {
  for (int64_t tried = 1; !try_read(index, buffer.epoch, into, tried == source_->size()); ++tried) {
    index = (index + 1) % source_->size();
  }
  buffer.set_index(row, index);
}

// False where the sample is skipped. `last`: there is none left to try.
bool Pipeline::Engine::try_read(int64_t index, int64_t epoch, SampleMemory into, bool last) {
  const bool skips = options_.on_corrupt == OnCorrupt::skip && !last;
  if (skips) {
    const Lock lock(skipped_mutex_);
    if (skipped_.contains(index)) return false;
  }
  try {
    source_->read(index, mix(mix(options_.seed, static_cast<uint64_t>(epoch)), static_cast<uint64_t>(index)), into);
    return true;
  } catch (const DataError& error) {
    if (!skips) throw;
    const Lock lock(skipped_mutex_);
    if (skipped_.insert(index).second && skipped_messages_.size() < kMostMessages) {
      skipped_messages_.emplace_back(error.what());
    }
    return false;
  }
}

// ---- delivering ----

std::shared_ptr<const DataBatch> Pipeline::Engine::next() {
  Lock lock(mutex_);
  if (next_.sample >= epoch_samples()) {
    next_ = {next_.epoch + 1, 0};
    return nullptr;
  }
  if (workers_.empty()) start_workers();
  if (pending_.empty() && assign() == nullptr && !failure_) {
    throw Error(
        fmt::format("all {} batch buffers are in use: release a batch before the next one, or raise max_bytes "
                    "({}; a batch takes {})",
                    buffers_, format_bytes(max_bytes_), format_bytes(layout_.bytes)));
  }
  if (failure_) std::rethrow_exception(failure_);
  const auto batch = wait_for_batch(lock);
  failure_ = (*batch)->failure;
  if (failure_) std::rethrow_exception(failure_);
  return deliver(batch);
}

// Those of the epoch that is being delivered, or in order the first alone.
Pipeline::Engine::Pending::iterator Pipeline::Engine::next_ready() {
  const auto end = options_.ordered ? pending_.begin() + 1 : pending_.end();
  const auto ready = std::find_if(
      pending_.begin(), end, [&](const auto& buffer) { return buffer->epoch == next_.epoch && is_ready(*buffer); });
  return ready == end ? pending_.end() : ready;
}

// The caller fills rows of its batch itself while there are some; not without an order, where a slow one would hold it
// up.
Pipeline::Engine::Pending::iterator Pipeline::Engine::wait_for_batch(Lock& lock) {
  auto ready = next_ready();
  if (ready != pending_.end()) return ready;
  const auto start = Clock::now();
  work_.notify_one();
  for (; ready == pending_.end(); ready = next_ready()) {
    BatchBuffer& front = *pending_.front();
    if (!options_.ordered || front.claimed == front.count) {
      filled_.wait(lock);
      continue;
    }
    const Claim claimed = claim_rows(front);
    lock.unlock();
    fill(claimed);
    lock.lock();
  }
  ++stats_.waits;
  stats_.wait_seconds += std::chrono::duration<double>(Clock::now() - start).count();
  if (stats_.batches > 0) grow();  // the first batch is always waited for
  return ready;
}

void Pipeline::Engine::grow() {
  if (options_.prefetch == 0) depth_ = std::min(depth_ + 1, kMostDepth);
  if (active_ < max_workers_) {
    ++active_;
    start_workers();
  }
}

void Pipeline::Engine::start_workers() {
  while (static_cast<int>(workers_.size()) < active_) {
    workers_.emplace_back([this, number = static_cast<int>(workers_.size())] { work(number); });
  }
}

std::shared_ptr<const DataBatch> Pipeline::Engine::deliver(const Pending::iterator& pending) {
  BatchBuffer* buffer = pending->get();
  in_use_.push_back(std::move(*pending));
  pending_.erase(pending);
  next_.sample += buffer->whole;
  ++stats_.batches;
  // Not at every batch: to wake a worker takes longer than to fill a small batch.
  if (has_room() && 2 * static_cast<int64_t>(pending_.size()) <= depth_) work_.notify_one();
  return {buffer, [self = shared_from_this()](BatchBuffer* released) { self->release(released); }};
}

void Pipeline::Engine::release(BatchBuffer* buffer) {
  const Lock lock(mutex_);
  const auto found =
      std::find_if(in_use_.begin(), in_use_.end(), [&](const auto& other) { return other.get() == buffer; });
  spare_.push_back(std::move(*found));
  in_use_.erase(found);
  if (buffers_ > most_buffers(max_bytes_)) {
    discard(std::move(spare_.back()));
    spare_.pop_back();
  }
  if (has_room() && 2 * static_cast<int64_t>(pending_.size()) <= depth_) work_.notify_one();
}

// ---- position and memory ----

Position Pipeline::Engine::position() const {
  const Lock lock(mutex_);
  return next_;
}

void Pipeline::Engine::seek(Position position) {
  const bool is_end = position.sample == epoch_samples();
  if (position.epoch < 0 || position.sample < 0 || position.sample > epoch_samples() ||
      (position.sample % options_.batch != 0 && !is_end)) {
    throw ArgumentError(
        fmt::format("epoch {}, sample {} is no place to go on from: expected a multiple of the batch "
                    "({}) up to {}",
                    position.epoch, position.sample, options_.batch, epoch_samples()));
  }
  Lock lock(mutex_);
  while (!pending_.empty()) drop_last_pending(lock);
  failure_ = nullptr;
  next_ = position;
  assigned_ = is_end ? Position{position.epoch + 1, 0} : position;
  if (!workers_.empty()) work_.notify_all();
}

// `depth_` is 0 meanwhile, so that no worker assigns the batch anew.
void Pipeline::Engine::drop_last_pending(Lock& lock) {
  BatchBuffer& last = *pending_.back();
  const int64_t depth = std::exchange(depth_, 0);
  const int64_t unclaimed = last.count - last.claimed;
  last.claimed = last.count;
  while (last.filled + unclaimed < last.count) filled_.wait(lock);
  depth_ = depth;
  assigned_ = {last.epoch, last.place - last.begins};
  spare_.push_back(std::move(pending_.back()));
  pending_.pop_back();
}

int64_t Pipeline::Engine::memory_bytes() const {
  const Lock lock(mutex_);
  return buffers_ * layout_.bytes + source_->memory_bytes();
}

int64_t Pipeline::Engine::least_bytes() const { return source_->memory_bytes() + layout_.bytes; }

int64_t Pipeline::Engine::most_buffers(int64_t bytes) const {
  const int64_t source = std::max(source_->memory_bytes(), resting_bytes_ + booked_reading());
  return std::max<int64_t>(1, (bytes - source) / layout_.bytes);
}

// The caller fills rows, too.
int64_t Pipeline::Engine::booked_reading() const { return (max_workers_ + 1) * source_->reader_bytes(); }

int64_t Pipeline::Engine::reading_bytes() const {
  const Lock lock(mutex_);
  return booked_reading();
}

void Pipeline::Engine::set_max_workers(int workers) {
  if (workers < 1) throw ArgumentError(fmt::format("{} workers: expected 1 or more", workers));
  const Lock lock(mutex_);
  if (options_.workers == 0) max_workers_ = std::max(active_, std::min(workers, kMostWorkers));
}

void Pipeline::Engine::set_max_bytes(int64_t bytes) {
  if (bytes < least_bytes()) {
    throw ArgumentError(
        fmt::format("{} for the data pipeline: expected {} or more, for one batch of {} and {} of the "
                    "source itself",
                    format_bytes(bytes), format_bytes(least_bytes()), format_bytes(layout_.bytes),
                    format_bytes(source_->memory_bytes())));
  }
  Lock lock(mutex_);
  max_bytes_ = bytes;
  shrink(lock);
}

int64_t Pipeline::Engine::max_bytes() const {
  const Lock lock(mutex_);
  return max_bytes_;
}

void Pipeline::Engine::shrink(Lock& lock) {
  const int64_t most = most_buffers(max_bytes_);
  // What is dropped is assigned anew, which in no order would mean what came after it, too.
  const size_t least_pending = options_.ordered ? 1 : pending_.size();
  while (buffers_ > most && (!spare_.empty() || pending_.size() > least_pending)) {
    if (spare_.empty()) drop_last_pending(lock);
    discard(std::move(spare_.back()));
    spare_.pop_back();
  }
}

void Pipeline::Engine::discard(std::unique_ptr<BatchBuffer> buffer) {
  --buffers_;
  if (options_.recorder != nullptr) options_.recorder->record_free(buffer->id, layout_.bytes, tag_);
}

void Pipeline::Engine::note_memory() {
  stats_.peak_bytes = std::max(stats_.peak_bytes, buffers_ * layout_.bytes + source_->memory_bytes());
}

PipelineStats Pipeline::Engine::stats() const {
  const Lock lock(mutex_);
  PipelineStats stats = stats_;
  stats.workers = std::min(active_, static_cast<int>(workers_.size()));
  stats.buffers = buffers_;
  const Lock skipped_lock(skipped_mutex_);
  stats.skipped = static_cast<int64_t>(skipped_.size());
  stats.skipped_samples.assign(skipped_.begin(), skipped_.end());
  stats.skipped_messages = skipped_messages_;
  return stats;
}

}  // namespace plimsoll::train::data
