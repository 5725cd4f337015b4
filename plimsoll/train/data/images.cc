#include "plimsoll/train/data/images.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "plimsoll/base/bytes.h"
#include "plimsoll/train/data/image.h"
#include "plimsoll/train/data/rows.h"

namespace plimsoll::train::data {
namespace {

namespace fs = std::filesystem;

bool has_image_name(const fs::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

// In order of their names. SystemError where the folder cannot be read.
std::vector<std::string> entries_of(const fs::path& folder, bool folders) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code unknown;
    const bool wanted = folders ? it->is_directory(unknown) : has_image_name(it->path());
    if (wanted) names.push_back(it->path().filename().string());
  }
  if (error) throw SystemError::from_errno(fmt::format("reading the folder {}", folder.string()), error.value());
  std::sort(names.begin(), names.end());
  return names;
}

// A whole file, read rather than mapped: it may be cut short or vanish at any time.
void read_whole(const std::string& path, int64_t most_bytes, std::vector<std::byte>& into, size_t& size) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw DataError({.source = path}, fmt::format("cannot be opened: {}", std::strerror(errno)));
  struct stat status {};
  fstat(fd, &status);
  size = 0;
  const bool fits = S_ISREG(status.st_mode) && status.st_size <= most_bytes;
  if (fits && into.size() < static_cast<size_t>(status.st_size)) {
    into = std::vector<std::byte>(static_cast<size_t>(status.st_size));
  }
  ssize_t got = fits ? 1 : 0;
  while (got > 0 && size < static_cast<size_t>(status.st_size)) {
    got = ::read(fd, into.data() + size, static_cast<size_t>(status.st_size) - size);
    if (got < 0 && errno == EINTR)
      got = 1;
    else if (got > 0)
      size += static_cast<size_t>(got);
  }
  const int error = got < 0 ? errno : 0;
  close(fd);
  if (!fits) throw DataError({.source = path}, "no regular file, or larger than the limit of an image");
  if (error != 0) throw DataError({.source = path}, fmt::format("cannot be read: {}", std::strerror(error)));
}

// What one reader of images needs.
struct Workspace {
  explicit Workspace(int64_t max_image_bytes) : decoder(max_image_bytes) {}

  int64_t memory_bytes() const { return static_cast<int64_t>(file.capacity()) + decoder.memory_bytes(); }

  ImageDecoder decoder;
  std::vector<std::byte> file;
  size_t file_bytes = 0;
  int64_t counted_bytes = 0;  // in the source's sum
};

class Images : public Source {
 public:
  Images(const std::string& folder, const OpenOptions& options) : folder_(folder), options_(options) {
    for (const std::string& name : entries_of(folder, true)) add_class(name);
    if (files_.empty()) {
      throw InputError({.source = folder}, "no images", "folders, one for each class, with .jpg, .jpeg or .png files");
    }
    check_options();
    names_.shrink_to_fit();
    files_.shrink_to_fit();
    if (options_.height == 0) use_first_size();
    const Shape shape{options_.channels, options_.height, options_.width};
    fields_ = {{.name = "x", .spec = {DType::u8, shape}}, {.name = "target", .spec = {DType::i64, {}}}};
    normalise(fields_[0], options_);
    probe_readers();
  }

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string describe() const override {
    return fmt::format("{} of {} classes from {}", describe_samples(*this), classes_.size(), folder_);
  }
  std::string name(int64_t index) const override {
    const File& file = files_[static_cast<size_t>(index)];
    return fmt::format("{}/{}/{}", folder_, classes_[file.label], names_.c_str() + file.name);
  }

  int64_t memory_bytes() const override {
    const std::lock_guard lock(mutex_);
    return static_cast<int64_t>(names_.capacity() + files_.capacity() * sizeof(File)) + workspace_bytes_;
  }

  int64_t reader_bytes() const override { return reader_bytes_; }

  void read(int64_t index, uint64_t /*draw*/, SampleMemory into) const override {
    std::unique_ptr<Workspace> workspace = take_workspace();
    try {
      const std::string path = name(index);
      read_whole(path, options_.max_image_bytes, workspace->file, workspace->file_bytes);
      workspace->decoder.decode(std::span(workspace->file).first(workspace->file_bytes), path, options_.channels,
                                {options_.height, options_.width}, into[0]);
    } catch (...) {
      give_back(std::move(workspace));
      throw;
    }
    give_back(std::move(workspace));
    const int64_t label = files_[static_cast<size_t>(index)].label;
    std::memcpy(into[1].data(), &label, sizeof label);
  }

 private:
  struct File {
    uint32_t name;  // where it begins in names_
    uint32_t label;
  };

  void add_class(const std::string& name) {
    const auto files = entries_of(fs::path(folder_) / name, false);
    if (files.empty()) return;
    for (const std::string& file : files) {
      if (names_.size() + file.size() >= UINT32_MAX) throw InputError({.source = folder_}, "names of more than 4 GiB");
      files_.push_back({static_cast<uint32_t>(names_.size()), static_cast<uint32_t>(classes_.size())});
      names_ += file;
      names_ += '\0';
    }
    classes_.push_back(name);
  }

  void check_options() const {
    if (options_.channels != 1 && options_.channels != 3) {
      throw ArgumentError(fmt::format("images of {} channels: expected 1 or 3", options_.channels));
    }
    if (options_.height < 0 || options_.width < 0 || (options_.height == 0) != (options_.width == 0)) {
      throw ArgumentError(
          fmt::format("images of {} x {}: expected a height and a width", options_.height, options_.width));
    }
    if (options_.classes > 0 && static_cast<int64_t>(classes_.size()) > options_.classes) {
      throw InputError({.source = folder_}, fmt::format("{} folders with images", classes_.size()),
                       fmt::format("at most {}, the classes of the model", options_.classes));
    }
  }

  void use_first_size() {
    Workspace workspace(options_.max_image_bytes);
    read_whole(name(0), options_.max_image_bytes, workspace.file, workspace.file_bytes);
    const ImageSize first = workspace.decoder.size_of(std::span(workspace.file).first(workspace.file_bytes), name(0));
    options_.height = first.height;
    options_.width = first.width;
  }

  // By the largest of some files. Those that cannot be read are told when they are samples.
  void probe_readers() {
    constexpr int64_t kProbed = 32;
    Workspace workspace(options_.max_image_bytes);
    const int64_t step = std::max<int64_t>(1, size() / kProbed);
    for (int64_t i = 0; i < size(); i += step) {
      try {
        read_whole(name(i), options_.max_image_bytes, workspace.file, workspace.file_bytes);
        const auto file = std::span(workspace.file).first(workspace.file_bytes);
        const int64_t decoding =
            workspace.decoder.memory_for(file, name(i), options_.channels, {options_.height, options_.width});
        reader_bytes_ = std::max(reader_bytes_, decoding + static_cast<int64_t>(workspace.file.capacity()));
      } catch (const DataError&) {
        continue;
      }
    }
  }

  std::unique_ptr<Workspace> take_workspace() const {
    const std::lock_guard lock(mutex_);
    if (spare_.empty()) return std::make_unique<Workspace>(options_.max_image_bytes);
    auto workspace = std::move(spare_.back());
    spare_.pop_back();
    return workspace;
  }

  void give_back(std::unique_ptr<Workspace> workspace) const {
    const std::lock_guard lock(mutex_);
    workspace_bytes_ += workspace->memory_bytes() - workspace->counted_bytes;
    workspace->counted_bytes = workspace->memory_bytes();
    spare_.push_back(std::move(workspace));
  }

  std::string folder_;
  OpenOptions options_;
  std::vector<std::string> classes_;
  std::string names_;  // of all files, each with a zero at its end
  std::vector<File> files_;
  std::vector<Field> fields_;
  int64_t reader_bytes_ = 0;
  mutable std::mutex mutex_;  // guards those below
  mutable std::vector<std::unique_ptr<Workspace>> spare_;
  mutable int64_t workspace_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Source> open_images(const std::string& folder, const OpenOptions& options) {
  return std::make_unique<Images>(folder, options);
}

bool is_image_folder(const std::string& folder) {
  for (const std::string& name : entries_of(folder, true)) {
    if (!entries_of(fs::path(folder) / name, false).empty()) return true;
  }
  return false;
}

}  // namespace plimsoll::train::data
