// Sources made of others, and of what a program has in memory. Each is a Source, so they compose:
// cache_in_memory(take(open(path), 1000), bytes).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plimsoll/train/data/pipeline.h"
#include "plimsoll/train/data/source.h"

namespace plimsoll::train::data {

using SourcePtr = std::shared_ptr<const Source>;

// An array of the caller's: sample i is its elements from i times the spec's on. It must outlive the source.
struct Array {
  Field field;
  std::span<const std::byte> bytes;
};
// ArgumentError for arrays that hold different numbers of samples, or a part of one.
SourcePtr arrays(std::vector<Array> arrays);

// Samples that a function writes; it is called by several threads at once, and throws DataError for what it cannot
// read.
SourcePtr callback(int64_t size, std::vector<Field> fields, std::function<void(int64_t, uint64_t, SampleMemory)> read);

// Sequences of different lengths, padded at their end to `length` with `pad`. `read` writes a sequence and returns how
// many elements it wrote; what is longer than `length` is cut by it.
struct Sequences {
  int64_t size = 0;
  int64_t length = 0;
  int64_t pad = 0;
  std::function<int64_t(int64_t index, std::span<int64_t> into)> read = {};
};
SourcePtr padded(std::string name, Sequences sequences);

// The samples in order of their lengths, in blocks of `block`: with PipelineOptions::shuffle_buffer = block, batches
// hold sequences of like length, and blocks come in random order. Takes 4 bytes a sample.
SourcePtr by_length(SourcePtr source, const std::function<int64_t(int64_t index)>& length);

// Each sample through `change`, in place, after it is read; in the workers.
SourcePtr map(SourcePtr source, std::function<void(uint64_t draw, SampleMemory sample)> change);
SourcePtr augment(SourcePtr source, const Augment& augment);  // of every field of rank 3

SourcePtr take(SourcePtr source, int64_t samples);  // the first ones
SourcePtr skip(SourcePtr source, int64_t samples);  // all but the first ones
SourcePtr repeat(SourcePtr source, int64_t times);  // an epoch is so many rounds

// Samples as they were read first, without their variation: put augment() around it. Of the first samples that
// `max_bytes` have room for, the others are read again each time. memory_bytes() has all of it from the start.
SourcePtr cache_in_memory(SourcePtr source, int64_t max_bytes);
// All of them, in a file without a name in `folder`; its pages are the kernel's. SystemError when the disk has no room.
SourcePtr cache_in_file(SourcePtr source, const std::string& folder);

}  // namespace plimsoll::train::data
