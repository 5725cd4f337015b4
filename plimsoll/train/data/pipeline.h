// A Pipeline turns a Source into batches, ahead of the steps that use them: workers read, decode and augment samples
// into a bounded number of batch buffers, which are delivered in order.
//
//   Pipeline pipeline(open("digits/", {.height = 28, .width = 28, .channels = 1}), {.batch = 64});
//   for (int epoch = 0; epoch < 10; ++epoch) {
//     while (auto batch = pipeline.next()) training.step(*batch);
//   }
//
// The order of samples and what augmentation does to them depend on the seed, the epoch and the source alone, not on
// the number of workers, the depth or the memory. One thread takes batches; batches may be released on any.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plimsoll/device/device.h"
#include "plimsoll/trace/recorder.h"
#include "plimsoll/train/batch.h"
#include "plimsoll/train/data/source.h"

namespace plimsoll::train::data {

enum class OnCorrupt : uint8_t { fatal, skip };

struct Augment {
  int64_t crop_padding = 0;  // images are moved by up to so many pixels each way, zeros around them
  bool flip = false;         // left to right, every second one
};

// The samples of each batch that one of several readers takes, from `first` on; none: all.
struct BatchPart {
  int64_t first = 0;
  int64_t samples = 0;
};

struct PipelineOptions {
  int64_t batch = 1;
  BatchPart part =
      {};  // epochs, positions and the order are of whole batches all the same; needs drop_last or fill_last
  bool shuffle = false;
  uint64_t seed = 0;
  // 0: each epoch is a permutation of all samples. N: blocks of N neighbours in random order, each shuffled within, for
  // files that are larger than memory. Neither takes memory.
  int64_t shuffle_buffer = 0;
  bool drop_last = false;  // the samples that are left over at the end of an epoch and make no whole batch
  bool fill_last = false;  // else they are made one with samples of the epoch's start
  // False: batches of an epoch come as they are ready, so a slow sample holds up its own batch alone. Samples of a
  // batch are the same; the order is not, and a position counts batches, whichever they were.
  bool ordered = true;
  int workers = 0;   // threads; 0: as many as the steps need, by how often they waited
  int prefetch = 0;  // batches ready ahead of the one in use; 0: as many as the steps need
  // What all buffers may take; at least one batch and the source's own. 0: 256 MiB, or two batches where those are
  // more.
  int64_t max_bytes = 0;
  OnCorrupt on_corrupt = OnCorrupt::fatal;
  Augment augment = {};
  // Batches are in page-locked memory for copies to this device: whole pages of the system each, within max_bytes.
  const device::Device* pinned_for = nullptr;
  trace::Recorder* recorder = nullptr;  // records the buffers as inputs tagged "data"; outlives all batches
};

// Of the next batch: what a checkpoint keeps.
struct Position {
  int64_t epoch = 0;
  int64_t sample = 0;  // of the epoch's order, delivered so far in this epoch
  bool operator==(const Position&) const = default;
};

struct PipelineStats {
  int64_t batches = 0;
  int64_t waits = 0;                          // calls of next() that found no batch ready
  double wait_seconds = 0;                    // in them
  int64_t skipped = 0;                        // samples that could not be read, each counted once
  std::vector<int64_t> skipped_samples;       // which, in the source
  std::vector<std::string> skipped_messages;  // of the first 20 of them: file, place, what was found
  int workers = 0;                            // at work at present
  int64_t buffers = 0;                        // batch buffers at present
  int64_t peak_bytes = 0;                     // the most that memory_bytes() was
};

// Some samples, as a step reads them. Fields go to the program's inputs by name; where no field has the name of an
// input and there is one input and one field beside the target, to that. Values are converted to the input's dtype.
class DataBatch : public Batch {
 public:
  virtual int64_t size() const = 0;           // samples: fewer than asked for at the end of an epoch only
  virtual int64_t first() const = 0;          // the first of them in the batch: 0 unless the pipeline reads a part
  virtual int64_t size_of_whole() const = 0;  // samples of the batch, those that others read included
  virtual std::span<const int64_t> indices() const = 0;          // of the samples in the source
  virtual std::span<const std::byte> field(size_t i) const = 0;  // of all samples, one after the other
  virtual const std::vector<Field>& fields() const = 0;
};

class Pipeline {
 public:
  // ArgumentError for options that make no sense, an empty source, and max_bytes below one batch (it says how many).
  Pipeline(std::shared_ptr<const Source> source, const PipelineOptions& options);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // The next batch, or nullptr at the end of an epoch; the call after that begins the next one. The batch keeps its
  // buffer until it is released, which may be after the pipeline's end. DataError for a sample that cannot be read when
  // that is fatal, or when every sample is such; Error when the caller holds all buffers there are.
  std::shared_ptr<const DataBatch> next();

  int64_t batches_per_epoch() const;
  const Source& source() const;

  Position position() const;
  void seek(Position position);  // ArgumentError for a sample beyond the epoch or amid a batch

  // Buffers of batches, those in use and those of the source included.
  int64_t memory_bytes() const;
  // The bound from now on. Buffers that are above it are freed as soon as they are not in use. ArgumentError as above.
  void set_max_bytes(int64_t bytes);
  int64_t least_bytes() const;  // that max_bytes may be
  int64_t max_bytes() const;    // the bound at present
  int64_t batch_bytes() const;  // of one batch's buffer

  // The most workers there may be where their number is automatic; as many as cores unless said.
  void set_max_workers(int workers);
  // What all that read together take of the bound while they do, the caller of next() among them.
  int64_t reading_bytes() const;

  PipelineStats stats() const;

 private:
  class Engine;
  std::shared_ptr<Engine> engine_;
};

}  // namespace plimsoll::train::data
