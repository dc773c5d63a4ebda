#include "device/gpu/check/stages/stages.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace mobula::internal::gpu_check {

Findings::Findings(std::string stage, bool brief, Duration limit)
    : stage_(std::move(stage)), brief_(brief), until_(monotonic_now() + limit) {}

Duration Findings::left() const { return std::max(Duration(0), until_ - monotonic_now()); }

void Findings::line(Json line) {
  line["stage"] = stage_;
  std::printf("%s\n", line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  std::fflush(stdout);
}

void Findings::value(const std::string& what, const Json& value, const std::string& unit) {
  Json made = {{"what", what}, {"value", value}};
  if (!unit.empty()) made["unit"] = unit;
  line(std::move(made));
}

void Findings::scope(const std::string& text) { line({{"what", "scope"}, {"value", text}}); }

void Findings::holds(const std::string& what, bool true_, const std::string& seen) {
  checked_ = true;
  failed_ = failed_ || !true_;
  Json made = {{"what", what}, {"holds", true_}};
  if (!seen.empty()) made["seen"] = seen;
  line(std::move(made));
}

void Findings::cannot(const std::string& why) {
  cannot_ = true;
  line({{"cannot", why}});
}

std::span<const Stage> stages() {
  static constexpr std::array table{
      Stage{"facts", 15, "the machine, its driver and libraries", &inspect_machine},
      Stage{"probe", 25,
            "answers of the libraries to about eighty calls, compared with the simulation",
            &run_probe},
      Stage{"cluster", 120,
            "the product: head, agent, discovery, device masks, fractions, overuse, a killed "
            "executor, start times, tensors between executors",
            &run_cluster},
      Stage{"cluster nccl", 60, "NCCL between actors of one GPU in the product, or its refusal",
            &share_gpu_in_cluster},
      Stage{"vmm", 60,
            "device memory by descriptor between processes: checksums, bandwidth, a killed "
            "exporter, a parked descriptor",
            &share_memory},
      Stage{
          "tensors by nccl", 60,
          "tensor exchange over NCCL between two and three processes that pass for separate hosts",
          &tensors_between_hosts},
      Stage{"tensors staged", 40,
            "tensor exchange through pinned host memory and encrypted TCP between two processes",
            &tensors_by_the_host},
      Stage{"interception", 60,
            "pointers that a preloaded libcuda.so.1 sees, a share that it enforces, PyTorch on "
            "top, ratios of call rates",
            &inspect_interception},
      Stage{"memory after exit", 30,
            "time until memory is free after exit and kill -9; cost and start time of a context",
            &measure_released_memory},
      Stage{"mps", 40,
            "a private MPS daemon: memory limit, ratio of the thread percentage, descriptors, a "
            "client with a fault",
            &run_under_mps},
      Stage{"torch", 20, "tensors to and from PyTorch by DLPack on the device",
            &exchange_with_torch},
      Stage{"two processes", 15, "division of compute time between two processes without MPS",
            &divide_time},
      Stage{"shares", 30,
            "an allocator that keeps to its share, bytes by process, the verdict of the guard on "
            "overuse",
            &keep_to_shares},
      Stage{"copy paths", 40,
            "copies between processes on the device, compared with copies through host memory",
            &compare_copy_paths},
      Stage{"undisturbed", 40,
            "a holder that serves while it captures a graph, and after it has forked",
            &serve_undisturbed},
      Stage{"nccl hosts", 60,
            "NCCL called directly by two and three ranks that pass for separate hosts",
            &nccl_between_hosts},
      Stage{"nccl multi-rank", 30, "two ranks of one GPU on one host, with the switch of NCCL 2.30",
            &nccl_on_one_host},
      Stage{"nccl faults", 60,
            "NCCL called directly: a killed rank, a stopped rank, the refusal of two ranks on one "
            "GPU",
            &nccl_faults},
  };
  return table;
}

}  // namespace mobula::internal::gpu_check
