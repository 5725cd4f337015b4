// Elements of UNIT's size from one strided place to another: element i of an index space lies by the two Walks.
KERNEL run(i64 n, const UNIT* from, UNIT* to, Walk source, Walk target) {
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
    to[place(target, i)] = from[place(source, i)];
  }
}
