#include "plimsoll/train/data/pipeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>

#include "plimsoll/base/bytes.h"
#include "plimsoll/device/pinned.h"
#include "plimsoll/models/nn.h"
#include "plimsoll/train/data/adaptors.h"
#include "plimsoll/train/data/order.h"
#include "tests/train/data/made_files.h"

namespace plimsoll::train::data {
namespace {

constexpr int64_t kSamples = 103;

// Sample i is i, and the bits it was drawn with.
SourcePtr numbered(int64_t size = kSamples) {
  const std::vector<Field> fields = {{.name = "x", .spec = {DType::i64, {2}}},
                                     {.name = "target", .spec = {DType::i64, {}}}};
  return callback(size, fields, [](int64_t index, uint64_t draw, SampleMemory into) {
    const int64_t values[2] = {index, static_cast<int64_t>(draw)};
    std::memcpy(into[0].data(), values, sizeof values);
    std::memcpy(into[1].data(), &index, sizeof index);
  });
}

std::vector<int64_t> numbers_of(const DataBatch& batch, size_t field) {
  const auto bytes = batch.field(field);
  const auto* first = reinterpret_cast<const int64_t*>(bytes.data());
  return {first, first + bytes.size() / sizeof(int64_t)};
}

// All numbers of the rest of an epoch, batch after batch.
std::vector<int64_t> epoch_of(Pipeline& pipeline) {
  std::vector<int64_t> all;
  while (const auto batch = pipeline.next()) {
    const auto numbers = numbers_of(*batch, 0);
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  return all;
}

TEST(Order, IsAPermutationOfEverySize) {
  for (const int64_t size : {1, 2, 3, 4, 5, 17, 64, 100, 1000}) {
    for (const int64_t block : {0, 1, 7, 64, 5000}) {
      EpochOrder order({size, true, block, 42}, 3);
      std::set<int64_t> seen;
      for (int64_t place = 0; place < size; ++place) seen.insert(order(place));
      EXPECT_EQ(static_cast<int64_t>(seen.size()), size) << block;
      EXPECT_EQ(*seen.begin(), 0);
      EXPECT_EQ(*seen.rbegin(), size - 1);
    }
  }
  const Permutation permutation(1000, 7);
  for (int64_t i = 0; i < 1000; ++i) EXPECT_EQ(permutation.inverse(permutation(i)), i);
}

// Neighbours in the order are not neighbours in the data: half of the pairs ascend, and places are far apart.
TEST(Order, LooksRandom) {
  constexpr int64_t kSize = 10'000;
  EpochOrder order({kSize, true, 0, 1}, 0);
  int64_t ascending = 0;
  double distance = 0;
  for (int64_t i = 1; i < kSize; ++i) {
    ascending += order(i) > order(i - 1) ? 1 : 0;
    distance += static_cast<double>(std::abs(order(i) - order(i - 1)));
  }
  EXPECT_NEAR(static_cast<double>(ascending), kSize / 2.0, 200);
  EXPECT_NEAR(distance / kSize, kSize / 3.0, 100);
  EXPECT_NE(EpochOrder({kSize, true, 0, 1}, 1)(0), order(0));
}

TEST(Order, KeepsBlocksTogether) {
  EpochOrder order({100, true, 10, 5}, 0);
  std::set<int64_t> blocks;
  for (int64_t place = 0; place < 100; ++place) {
    EXPECT_EQ(order(place) / 10, order(place / 10 * 10) / 10);
    blocks.insert(order(place) / 10);
  }
  EXPECT_EQ(blocks.size(), 10U);
}

TEST(Pipeline, GivesTheSameBatchesWhateverTheWorkers) {
  std::vector<int64_t> expected;
  for (const int workers : {1, 2, 4, 0}) {
    for (const int prefetch : {1, 3, 0}) {
      Pipeline pipeline(numbered(), {.batch = 8, .shuffle = true, .seed = 9, .workers = workers, .prefetch = prefetch});
      std::vector<int64_t> all = epoch_of(pipeline);
      const auto second = epoch_of(pipeline);
      all.insert(all.end(), second.begin(), second.end());
      if (expected.empty()) expected = all;
      EXPECT_EQ(all, expected) << workers << " workers, " << prefetch << " ahead";
    }
  }
  EXPECT_EQ(expected.size(), 4U * kSamples);
}

TEST(Pipeline, GivesEverySampleOnceAnEpoch) {
  Pipeline pipeline(numbered(), {.batch = 10, .shuffle = true});
  EXPECT_EQ(pipeline.batches_per_epoch(), 11);
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::set<int64_t> seen;
    int64_t last = 0;
    while (const auto batch = pipeline.next()) {
      EXPECT_EQ(std::vector<int64_t>(batch->indices().begin(), batch->indices().end()), numbers_of(*batch, 1));
      seen.insert(batch->indices().begin(), batch->indices().end());
      last = batch->size();
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(kSamples));
    EXPECT_EQ(last, 3);
  }
  Pipeline whole(numbered(), {.batch = 10, .drop_last = true});
  EXPECT_EQ(epoch_of(whole).size(), 200U);
  EXPECT_EQ(whole.batches_per_epoch(), 10);
}

TEST(Pipeline, GoesOnFromAPosition) {
  const PipelineOptions options{.batch = 8, .shuffle = true, .seed = 4};
  Pipeline undisturbed(numbered(), options);
  epoch_of(undisturbed);
  for (int i = 0; i < 5; ++i) undisturbed.next();
  const Position position = undisturbed.position();
  EXPECT_EQ(position, (Position{1, 40}));
  const auto expected = epoch_of(undisturbed);

  Pipeline resumed(numbered(), options);
  resumed.next();
  resumed.seek(position);
  EXPECT_EQ(resumed.position(), position);
  EXPECT_EQ(epoch_of(resumed), expected);
  EXPECT_EQ(resumed.position(), (Position{2, 0}));
  resumed.seek({1, kSamples});  // the end of an epoch
  EXPECT_EQ(resumed.next(), nullptr);
  EXPECT_EQ(resumed.position(), (Position{2, 0}));
  EXPECT_THROW(resumed.seek({0, 3}), ArgumentError);
  EXPECT_THROW(resumed.seek({0, kSamples + 8}), ArgumentError);
}

// Several readers, each with a part: together they have what one that reads all of each batch has.
TEST(Pipeline, ReadsItsPartOfEachBatch) {
  const PipelineOptions options{.batch = 8, .shuffle = true, .seed = 4, .drop_last = true, .workers = 2};
  Pipeline whole(numbered(), options);
  std::vector<std::unique_ptr<Pipeline>> parts;
  for (const BatchPart part : {BatchPart{0, 3}, BatchPart{3, 3}, BatchPart{6, 2}}) {
    PipelineOptions of_part = options;
    of_part.part = part;
    parts.push_back(std::make_unique<Pipeline>(numbered(), of_part));
    EXPECT_EQ(parts.back()->batches_per_epoch(), whole.batches_per_epoch());
    EXPECT_LT(parts.back()->batch_bytes(), whole.batch_bytes());
  }
  for (int i = 0; i < 40; ++i) {  // three epochs and a bit; 12 batches and an end each
    if (i == 20) {
      whole.seek({1, 16});
      for (const auto& part : parts) part->seek({1, 16});
    }
    const auto batch = whole.next();
    std::vector<int64_t> together;
    for (const auto& reader : parts) {
      const auto part = reader->next();
      EXPECT_EQ(reader->position(), whole.position());
      ASSERT_EQ(part == nullptr, batch == nullptr);
      if (!part) continue;
      EXPECT_EQ(part->first(), static_cast<int64_t>(together.size()));
      EXPECT_EQ(part->size_of_whole(), 8);
      EXPECT_EQ(part->index_of(part->first()), part->indices()[0]);
      EXPECT_EQ(part->index_of(part->first() + part->size()), std::nullopt);
      const auto numbers = numbers_of(*part, 1);
      EXPECT_EQ(static_cast<int64_t>(numbers.size()), part->size());
      together.insert(together.end(), numbers.begin(), numbers.end());
    }
    if (batch) {
      EXPECT_EQ(together, numbers_of(*batch, 1));
    }
  }
  EXPECT_THROW(Pipeline(numbered(), {.batch = 8, .part = {6, 3}, .drop_last = true}), ArgumentError);
  EXPECT_THROW(Pipeline(numbered(), {.batch = 8, .part = {0, 4}}), ArgumentError);
}

TEST(Pipeline, KeepsToItsBytes) {
  const auto wide = callback(64, {{.name = "x", .spec = {DType::f32, {1024}}}},
                             [](int64_t, uint64_t, SampleMemory into) { std::memset(into[0].data(), 1, 4096); });
  const int64_t batch_bytes = 4 * 4096 + 64;
  trace::Recorder recorder(1000);
  {
    Pipeline pipeline(wide, {.batch = 4, .prefetch = 16, .max_bytes = 4 * batch_bytes, .recorder = &recorder});
    EXPECT_EQ(pipeline.least_bytes(), batch_bytes);
    while (const auto batch = pipeline.next()) EXPECT_LE(pipeline.memory_bytes(), 4 * batch_bytes);
    pipeline.set_max_bytes(2 * batch_bytes);
    EXPECT_LE(pipeline.memory_bytes(), 2 * batch_bytes);
    while (const auto batch = pipeline.next()) EXPECT_LE(pipeline.memory_bytes(), 2 * batch_bytes);
    const auto held = pipeline.next();
    pipeline.set_max_bytes(batch_bytes);  // the one in use, and at most one that is being filled
    EXPECT_LE(pipeline.memory_bytes(), 2 * batch_bytes);
    EXPECT_LE(pipeline.stats().peak_bytes, 4 * batch_bytes);
    EXPECT_THROW(pipeline.set_max_bytes(batch_bytes - 1), ArgumentError);
  }
  const trace::Trace trace = recorder.snapshot();
  EXPECT_LE(trace::live_peak_bytes(trace), 4 * batch_bytes);
  int64_t live = 0;
  for (const trace::Event& event : trace.events) live += event.kind == trace::EventKind::alloc ? 1 : -1;
  EXPECT_EQ(live, 0);
  EXPECT_EQ(trace.tags[trace.events[0].tag].name, "data");
}

TEST(Pipeline, FillsTheLastBatchWithTheEpochsStart) {
  Pipeline pipeline(numbered(), {.batch = 10, .shuffle = true, .fill_last = true});
  EXPECT_EQ(pipeline.batches_per_epoch(), 11);
  const auto numbers = epoch_of(pipeline);  // each with its draw
  ASSERT_EQ(numbers.size(), 2U * 110);
  EXPECT_TRUE(std::equal(numbers.begin() + 2 * kSamples, numbers.end(), numbers.begin()));
  Pipeline wide(numbered(3), {.batch = 8, .fill_last = true});
  EXPECT_EQ(numbers_of(*wide.next(), 1), (std::vector<int64_t>{0, 1, 2, 0, 1, 2, 0, 1}));
  EXPECT_EQ(wide.next(), nullptr);
  EXPECT_THROW(Pipeline(numbered(), {.batch = 10, .drop_last = true, .fill_last = true}), ArgumentError);
}

// Sample 0 is ready only after all others of its epoch have come.
TEST(Pipeline, WithoutOrderASlowSampleHoldsUpItsBatchAlone) {
  constexpr int64_t kSize = 24;
  std::atomic<int64_t> delivered = 0;
  std::atomic<int64_t> epochs = 0;
  const auto source = map(numbered(kSize), [&](uint64_t, SampleMemory sample) {
    if (*reinterpret_cast<const int64_t*>(sample[1].data()) != 0) return;
    const int64_t others = kSize * epochs++ + kSize - 4;
    while (delivered < others) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  Pipeline pipeline(source, {.batch = 4, .ordered = false, .workers = 2, .prefetch = 2});
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<int64_t> firsts;
    std::set<int64_t> seen;
    while (const auto batch = pipeline.next()) {
      firsts.push_back(batch->indices()[0]);
      seen.insert(batch->indices().begin(), batch->indices().end());
      EXPECT_EQ(batch->indices()[3], batch->indices()[0] + 3) << "batches are as they are in order";
      delivered += batch->size();
      EXPECT_EQ(pipeline.position(), (Position{epoch, delivered - epoch * kSize}));
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(kSize));
    ASSERT_EQ(firsts.size(), 6U);
    EXPECT_EQ(firsts.back(), 0);
  }
  delivered = 100 * kSize;  // the workers are in the next epoch
}

TEST(Pipeline, PageLocksItsBuffersForADevice) {
  trace::Recorder recorder(100);
  {
    Pipeline pipeline(
        numbered(),
        {.batch = 8, .max_bytes = 16 * kKiB, .pinned_for = &device::find_device("sim"), .recorder = &recorder});
    EXPECT_EQ(pipeline.batch_bytes(), device::pinned_bytes(1));  // 256 bytes in a page
    EXPECT_EQ(epoch_of(pipeline).size(), 2U * kSamples);
    EXPECT_LE(pipeline.stats().peak_bytes, 16 * kKiB);
  }
  EXPECT_EQ(trace::live_peak_bytes(recorder.snapshot()) % device::pinned_bytes(1), 0);
}

TEST(Pipeline, WorksWithOneBuffer) {
  Pipeline pipeline(numbered(), {.batch = 8, .max_bytes = 8 * (24 + 8)});
  EXPECT_EQ(epoch_of(pipeline).size(), 2U * kSamples);
  EXPECT_EQ(pipeline.stats().buffers, 1);
  const auto held = pipeline.next();
  EXPECT_TRUE(has(message_of<Error>([&] { pipeline.next(); }), "all 1 batch buffers are in use"));
}

TEST(Pipeline, LeavesBatchesToTheirUsers) {
  std::shared_ptr<const DataBatch> batch;
  {
    Pipeline pipeline(numbered(), {.batch = 8});
    batch = pipeline.next();
    pipeline.next();
  }
  EXPECT_EQ(numbers_of(*batch, 1), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

SourcePtr with_corrupt(std::set<int64_t> corrupt) {
  return callback(20, {{.name = "x", .spec = {DType::i64, {}}}}, [corrupt](int64_t index, uint64_t, SampleMemory into) {
    if (corrupt.contains(index)) throw DataError({.source = std::to_string(index) + ".jpg"}, "is truncated");
    std::memcpy(into[0].data(), &index, sizeof index);
  });
}

TEST(Pipeline, SkipsCorruptSamplesWithAWord) {
  for (const int workers : {1, 3}) {
    Pipeline pipeline(with_corrupt({3, 4, 19}), {.batch = 5, .workers = workers, .on_corrupt = OnCorrupt::skip});
    const auto numbers = epoch_of(pipeline);
    EXPECT_EQ(numbers, (std::vector<int64_t>{0, 1, 2, 5, 5, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 0}));
    epoch_of(pipeline);
    const PipelineStats stats = pipeline.stats();
    EXPECT_EQ(stats.skipped, 3);
    EXPECT_EQ(stats.skipped_messages.size(), 3U);
    EXPECT_TRUE(has(stats.skipped_messages[0], ".jpg: is truncated"));
  }
}

TEST(Pipeline, EndsAtACorruptSampleWhereThatIsFatal) {
  for (const int workers : {1, 3}) {
    Pipeline pipeline(with_corrupt({7, 8}), {.batch = 5, .workers = workers});
    EXPECT_NE(pipeline.next(), nullptr);
    for (int again = 0; again < 2; ++again) {
      EXPECT_EQ(message_of<DataError>([&] { pipeline.next(); }), "7.jpg: is truncated");
    }
    EXPECT_EQ(pipeline.position(), (Position{0, 5}));
    pipeline.seek({0, 10});
    EXPECT_EQ(numbers_of(*pipeline.next(), 0)[0], 10);
  }
  std::set<int64_t> all;
  for (int64_t i = 0; i < 20; ++i) all.insert(i);
  Pipeline hopeless(with_corrupt(all), {.batch = 5, .on_corrupt = OnCorrupt::skip});
  EXPECT_THROW(hopeless.next(), DataError);
}

TEST(Pipeline, RefusesOptionsThatMakeNoSense) {
  EXPECT_THROW(Pipeline(numbered(), {.batch = 0}), ArgumentError);
  EXPECT_THROW(Pipeline(numbered(), {.workers = -1}), ArgumentError);
  EXPECT_THROW(Pipeline(numbered(), {.prefetch = 1000}), ArgumentError);
  EXPECT_THROW(Pipeline(numbered(), {.batch = 200, .drop_last = true}), ArgumentError);
  EXPECT_THROW(Pipeline(take(numbered(), 0), {}), ArgumentError);
  EXPECT_TRUE(has(message_of<ArgumentError>([] { Pipeline(numbered(), {.batch = 8, .max_bytes = 10}); }),
                  "expected 256 B or more"));
}

// Steps slower than the pipeline find their batches ready, once the first are through.
TEST(Pipeline, IsAheadOfSlowSteps) {
  Pipeline pipeline(numbered(400), {.batch = 8});
  for (int i = 0; i < 3; ++i) pipeline.next();
  const int64_t before = pipeline.stats().waits;
  int64_t steps = 0;
  for (auto batch = pipeline.next(); batch; batch = pipeline.next(), ++steps) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_EQ(steps, 47);
  EXPECT_LE(pipeline.stats().waits - before, 20);  // on a machine that is busy with other things
}

TEST(Pipeline, VariesSamplesByTheSeedAndTheEpoch) {
  const auto draws = [](uint64_t seed) {
    Pipeline pipeline(numbered(4), {.batch = 4, .seed = seed});
    const auto first = epoch_of(pipeline);
    const auto second = epoch_of(pipeline);
    EXPECT_NE(first[1], second[1]);
    return first;
  };
  EXPECT_EQ(draws(1), draws(1));
  EXPECT_NE(draws(1)[1], draws(2)[1]);
}

TEST(Augment, MovesAndFlipsImages) {
  const std::vector<uint8_t> image = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto source = arrays({{{.name = "x", .spec = {DType::u8, {1, 3, 3}}}, std::as_bytes(std::span(image))}});
  const auto moved = augment(source, {.crop_padding = 1, .flip = true});
  std::set<std::vector<uint8_t>> seen;
  for (uint64_t draw = 0; draw < 500; ++draw) seen.insert(values_of<uint8_t>(read_sample(*moved, 0, draw)[0]));
  EXPECT_EQ(seen.size(), 18U);  // nine places, two ways round
  EXPECT_TRUE(seen.contains({1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_TRUE(seen.contains({3, 2, 1, 6, 5, 4, 9, 8, 7}));
  EXPECT_TRUE(seen.contains({0, 0, 0, 0, 1, 2, 0, 4, 5}));
  EXPECT_TRUE(seen.contains({0, 3, 2, 0, 6, 5, 0, 9, 8}));
  EXPECT_TRUE(seen.contains({5, 6, 0, 8, 9, 0, 0, 0, 0}));
  EXPECT_EQ(read_sample(*moved, 0, 7), read_sample(*moved, 0, 7));
}

TEST(Adaptors, Compose) {
  const auto number = [](const Source& source, int64_t index) {
    return values_of<int64_t>(read_sample(source, index)[1])[0];
  };
  const auto part = repeat(take(skip(numbered(), 10), 3), 2);
  EXPECT_EQ(part->size(), 6);
  EXPECT_EQ(number(*part, 4), 11);
  const auto doubled =
      map(numbered(), [](uint64_t, SampleMemory sample) { *reinterpret_cast<int64_t*>(sample[1].data()) *= 2; });
  EXPECT_EQ(number(*doubled, 7), 14);
  const auto ordered = by_length(numbered(4), [](int64_t index) { return 10 - index; });
  EXPECT_EQ(number(*ordered, 0), 3);
  const auto sequences = padded("tokens", {.size = 2, .length = 4, .pad = -1, .read = [](int64_t index, auto into) {
                                             into[0] = index;
                                             return int64_t{1 + index};
                                           }});
  EXPECT_EQ(values_of<int64_t>(read_sample(*sequences, 0)[0]), (std::vector<int64_t>{0, -1, -1, -1}));
  EXPECT_THROW(repeat(numbered(), 0), ArgumentError);
}

TEST(Adaptors, CacheReadsOnce) {
  const Folder folder;
  std::atomic<int> reads = 0;
  const auto counted = map(numbered(10), [&](uint64_t, SampleMemory) { ++reads; });
  for (const auto& cached : {cache_in_memory(counted, 1 << 20), cache_in_file(counted, folder.path())}) {
    reads = 0;
    Pipeline pipeline(cached, {.batch = 4, .workers = 3});
    const auto first = epoch_of(pipeline);
    const auto second = epoch_of(pipeline);
    EXPECT_EQ(second, first);  // as they were drawn first
    EXPECT_EQ(reads, 10);
  }
  const auto small = cache_in_memory(counted, 3 * 25);
  for (int64_t i = 0; i < 10; ++i) read_sample(*small, i);
  EXPECT_EQ(small->memory_bytes(), 3 * 25);
  EXPECT_THROW(cache_in_file(counted, folder.path() + "/none"), SystemError);
}

TEST(Batch, ConvertsToWhatTheProgramTakes) {
  const std::vector<uint8_t> pixels = {0, 255, 51, 102, 0, 0, 255, 255};
  const std::vector<int32_t> labels = {3, 4};
  Field x{.name = "pixels", .spec = {DType::u8, {2, 1, 2}}};
  x.scale = {1 / 255.0F, 2 / 255.0F};
  x.offset = {0, -1};
  const auto source = arrays({{x, std::as_bytes(std::span(pixels))},
                              {{.name = "target", .spec = {DType::i32, {}}}, std::as_bytes(std::span(labels))}});
  Pipeline pipeline(source, {.batch = 2});
  const auto batch = pipeline.next();

  models::Net net;
  const auto input = net.input("x", {models::Net::batch(), 4});
  const models::Model model = classify(std::move(net), input);
  const program::Program bound = program::bind(model.program, {{"batch", 1}});
  std::vector<float> floats(4);
  const auto into = std::as_writable_bytes(std::span(floats));
  batch->read(bound, bound.inputs[0], 0, into);
  EXPECT_FLOAT_EQ(floats[1], 1);
  EXPECT_NEAR(floats[2], -0.6, 1e-6);
  EXPECT_NEAR(floats[3], -0.2, 1e-6);
  batch->read(bound, bound.inputs[0], 1, into);
  EXPECT_EQ(floats, (std::vector<float>{0, 0, 1, 1}));
  int64_t label = 0;
  batch->read(bound, bound.inputs[1], 1, std::as_writable_bytes(std::span(&label, 1)));
  EXPECT_EQ(label, 4);
  EXPECT_THROW(batch->read(bound, bound.inputs[0], 2, into), ArgumentError);
}

}  // namespace
}  // namespace plimsoll::train::data
