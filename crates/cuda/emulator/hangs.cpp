// Launches the kernel of hangs.cu that is named first, in clusters of so many blocks. scripts/check-emulator.sh looks at how it ends.
#include "driver.cpp"

int main(int, char** arguments) {
  void *function, *nothing[1];
  if (cuModuleGetFunction(&function, nullptr, arguments[1])) return 2;
  unsigned cluster = atoi(arguments[2]);
  Attribute attribute = {4, 0, {cluster, 1, 1}};
  Config config = {{2 * cluster, 1, 1}, {THREADS, 1, 1}, 256, nullptr, &attribute, 1};
  return cuLaunchKernelEx(&config, function, nothing, nullptr);
}
