// What both layouts of batch normalisation share: moments of parts, which are joined in their order.
DEVICE i64 begin_of(i64 count, i64 part, i64 parts) { return count / parts * part + (part < count % parts ? part : count % parts); }

// Count, mean and sum of squared distances from it.
struct Moments {
  float count;
  float mean;
  float squares;
};

DEVICE Moments joined(const Moments& a, const Moments& b) {
  Moments all;
  all.count = a.count + b.count;
  if (all.count == 0) {
    all.mean = 0;
    all.squares = 0;
    return all;
  }
  const float distance = b.mean - a.mean;
  const float share = b.count / all.count;
  all.mean = a.mean + distance * share;
  all.squares = a.squares + b.squares + distance * distance * a.count * share;
  return all;
}

DEVICE Moments shuffled(const Moments& m, int lane_mask) {
  Moments other;
  other.count = shuffled(m.count, lane_mask);
  other.mean = shuffled(m.mean, lane_mask);
  other.squares = shuffled(m.squares, lane_mask);
  return other;
}

// From sums and sums of squares of the distances from a value near the mean.
DEVICE Moments moments_of(float count, float near, float sum, float squares) {
  Moments m;
  m.count = count;
  const float distance = count > 0 ? sum / count : 0;
  m.mean = near + distance;
  m.squares = fmaxf(squares - sum * distance, 0.0f);
  return m;
}
