// Settings of the simulated GPUs of this process from MOBULA_SIMULATED_GPU (see README.md), read on
// first use. Also the end of a misusing process, and seeded random numbers.
// Thread: any.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace simulated_gpu {

struct Settings {
  std::string directory;
  int count = 1;
  std::uint64_t memory = std::uint64_t{1} << 30;
  std::uint64_t context = std::uint64_t{32} << 20;
  std::uint64_t communicator = std::uint64_t{8} << 20;
  bool all_peers = true;
  std::set<std::pair<int, int>> peers;
  std::set<int> mig;
  int driver = 13'000;
  int nccl = 22'809;
  std::uint64_t seed = 1;
  std::uint64_t late_us = 200;
  std::uint64_t init_ms = 5;
  bool hides_processes = false;
  std::set<std::string> lacks;
  std::set<std::string> wraps;
  std::map<std::pair<std::string, int>, int> fail;
  std::set<std::pair<std::string, int>> hang;
  std::uint64_t most_bytes = UINT64_MAX;
};

const Settings& settings();

// Location of memory: a device, or a slice with its own memory. A whole device has slice -1.
inline constexpr int slices_of_a_device = 2;
inline int location_of(int machine_index, int slice) { return machine_index * 16 + slice + 1; }
inline int device_at(int location) { return location / 16; }
inline bool is_slice(int location) { return location % 16 != 0; }
inline std::uint64_t memory_at(int location) {
  return is_slice(location) ? settings().memory / slices_of_a_device : settings().memory;
}

// Counts a call of this name; returns the status with which it must fail, or 0.
int fault_of(const char* call);
// Counts an action that can hang; returns whether it must.
bool hangs(const char* what);

// Reports an error in the test and ends the process.
[[noreturn]] void misuse(const char* what);

// Any thread.
std::uint64_t chance_below(std::uint64_t bound);

}  // namespace simulated_gpu
