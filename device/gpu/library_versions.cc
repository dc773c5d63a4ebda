#include "device/gpu/library_versions.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "device/gpu/cuda_driver.h"
#include "device/gpu/nccl_library.h"

namespace mobula::internal {
namespace {

void print_line(const char* name, std::string rest) {
  std::ranges::replace(rest, '\n', ' ');
  // Begins with a newline, because a library may have printed an incomplete line.
  std::printf("\nmobula-gpu-library %s %s\n", name, rest.c_str());
  std::fflush(stdout);
}

}  // namespace

int print_gpu_libraries() {
  const auto cuda = CudaDriver::open();
  const int version = cuda ? (*cuda)->version() : 0;
  print_line("cuda",
             cuda ? std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10)
                  : "- " + cuda.error().text);
  const auto nccl = NcclLibrary::open();
  print_line("nccl", nccl ? nccl_version_text((*nccl)->version()) : "- " + nccl.error().text);
  return 0;
}

}  // namespace mobula::internal
