// The PATH of --data as a Source.
//
//   a folder of folders of .jpg, .jpeg, .png    one class for each folder, in the order of their names; x, target
//   a folder with x.npy and y.npy               the same as x.npy,y.npy
//   a folder with IDX files of MNIST            train-images-idx3-ubyte and its labels, plain or .gz
//   a folder with CIFAR's binaries              data_batch_1.bin ..., or train.bin of CIFAR-100
//   X.npy,Y.npy                                 rows of two arrays
//   FILE.npz                                    arrays x and y (or target, labels)
//   IMAGES-idx3-ubyte[,LABELS-idx1-ubyte]       the labels' name follows from the images' where it is not given
//   FILE.bin                                    tokens as u16, or u32:FILE.bin; tokens, target (the next tokens)
//   FILE.txt                                    its bytes as tokens; lines:FILE for a sample from each line, padded
//   FILE.csv                                    a row for each sample; a header line is recognised
//
// FORMAT:PATH, of the formats images, npy, npz, idx, cifar10, cifar100, u16, u32, csv, text, lines, says what a path
// cannot.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plimsoll/train/data/source.h"

namespace plimsoll::train::data {

struct OpenOptions {
  // Images are resized to this (the shorter side, then the middle is cut out); 0: as the first image is.
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 3;           // 1 or 3: images are converted
  int64_t sequence = 0;           // tokens of a sample; must be given for token files
  int64_t classes = 0;            // labels must be below; 0: not checked
  int64_t vocabulary = 0;         // tokens must be below; 0: not checked
  std::string label_column = {};  // of a CSV: a name of its header, or a number from 0; empty: the last column
  // Pixels become 0 to 1, then (pixel - mean) / std by channel. Empty: 0 to 1 as they are.
  std::vector<float> mean = {};
  std::vector<float> std = {};
  int64_t max_image_bytes = int64_t{64} << 20;  // a decoded image may take while it is being resized
  bool check_finite = true;                     // NaN and infinity in floating-point data are a DataError
};

// InputError with the file and the place for what is no such data, SystemError for what the system refuses,
// ArgumentError for a path or options that make no sense; each says what to do.
std::unique_ptr<Source> open(const std::string& path, const OpenOptions& options = {});

}  // namespace plimsoll::train::data
