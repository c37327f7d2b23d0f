// Adds up the slices of `parts`; the sums of each column stand with its first four threads.
fn reduce(local: u32) {
  for (var width = SLICES / 4u; width >= 1u; width /= 4u) {
    workgroupBarrier();
    for (var i = local; i < 4u * width * COLUMNS; i += THREADS) {
      let at = (i / (4u * width)) * THREADS + i % (4u * width);
      parts[at] += parts[at + 4u * width] + parts[at + 8u * width] + parts[at + 12u * width];
    }
  }
  workgroupBarrier();
}
