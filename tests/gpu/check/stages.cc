#include "gpu/check/stages.h"

#include <array>
#include <cstdio>

namespace mobula::internal::gpu_check {

void Findings::line(Json line) {
  line["stage"] = stage_;
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

void Findings::value(const std::string& what, const Json& value, const std::string& unit) {
  found_ = true;
  Json made = {{"what", what}, {"value", value}};
  if (!unit.empty()) made["unit"] = unit;
  line(std::move(made));
}

void Findings::scope(const std::string& text) { line({{"what", "scope"}, {"value", text}}); }

void Findings::holds(const std::string& what, bool true_, const std::string& seen) {
  found_ = true;
  failed_ = failed_ || !true_;
  Json made = {{"what", what}, {"holds", true_}};
  if (!seen.empty()) made["seen"] = seen;
  line(std::move(made));
}

void Findings::cannot(const std::string& why) { line({{"cannot", why}}); }

std::span<const Stage> stages() {
  static constexpr std::array table{
      Stage{"facts", 20, "the machine, its driver and libraries", &look_at_machine, ""},
      Stage{"vmm", 60, "device memory by descriptor between processes: checksums, bandwidth, an exporter that is killed, a descriptor parked without CUDA", &share_memory, ""},
      Stage{"nccl hosts", 60, "two and three ranks of one GPU as if on hosts of their own: opposite pair, ring, sizes, checksums; NCCL called directly", &nccl_between_hosts, ""},
      Stage{"nccl faults", 80, "a rank that is killed or stopped, and the typed refusal of two ranks on one GPU; NCCL called directly", &nccl_faults, ""},
      Stage{"nccl multi-rank", 60, "two ranks of one GPU by NCCL 2.30's own switch", nullptr, "a library of NCCL 2.30 in the bundle"},
      Stage{"direct beside store", 60, "bytes from process to process on the device, beside the way by host memory", &direct_beside_store, ""},
      Stage{"tensors by nccl", 100, "Mobula's own exchange between two and three processes of one GPU as if on hosts of their own, strictly by NCCL: opposite pair, ring, sizes, checksums", &tensors_between_hosts, ""},
      Stage{"tensors staged", 50, "the same by way of the host: chunks through pinned slices, sealed", &tensors_by_the_host, ""},
      Stage{"undisturbed", 40, "a holder that gives while it captures a graph, and after it has forked", &serve_undisturbed, ""},
      Stage{"shares", 30, "an allocator that keeps to its share, bytes by process, what the guard says of one that takes more, bytes that come back after a kill", &keep_to_shares, ""},
      Stage{"probe", 30, "the answers to some eighty calls, right and wrong ones", &ask_probe, ""},
      Stage{"torch", 40, "tensors to and from PyTorch by DLPack on the device, where Python has a PyTorch", &exchange_with_torch, ""},
      Stage{"mps", 10, "whether a control daemon is there", &look_at_mps, ""},
  };
  return table;
}

}  // namespace mobula::internal::gpu_check
