// Matrix products: cuBLASLt's where it is installed, tiles of our own otherwise.
#pragma once

#include "plimsoll/kernels/cuda/support/steps.h"

namespace plimsoll::kernels::cuda {

// A matrix in place: element (i, j) is i * row + j * column elements after the first, matrix b of a batch b * batch.
struct Matrix {
  At at;
  int64_t row = 0;
  int64_t column = 0;
  int64_t batch = 0;
};

struct Product {
  DType dtype = DType::f32;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batches = 1;
  Matrix a = {};      // [m, k]
  Matrix b = {};      // [k, n]
  Matrix c = {};      // [m, n], its columns without gaps
  At bias = {};       // of n elements, added to each row
  bool adds = false;  // to what is in c
};

// c = a b, batch by batch. For f32 in f32, or in tf32 where the process allows it.
void multiply(Steps& steps, const Product& product);

// What is summed over several batches into one: by tiles of our own.
struct SummedProduct {
  Product product;                                // of one batch, its batches left out
  Walk batch_a = {}, batch_b = {}, batch_c = {};  // over the batches of c
  Walk summed_a = {}, summed_b = {};              // over what is summed
};
void multiply_summed(Steps& steps, const SummedProduct& product);

}  // namespace plimsoll::kernels::cuda
