// Stages about the machine, device memory between processes, and shares of it.
#include <fcntl.h>
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "device/detection/nvml.h"
#include "device/gpu/check/command.h"
#include "device/gpu/check/peers.h"
#include "device/gpu/nccl_library.h"
#include "worker/core/slots/gpu_guard.h"

namespace mobula::internal::gpu_check {
namespace {

std::string size_text(std::uint64_t bytes) {
  if (bytes >= (1ull << 30) && bytes % (1ull << 30) == 0) return fmt::format("{} GiB", bytes >> 30);
  if (bytes >= (1ull << 20) && bytes % (1ull << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  if (bytes >= (1ull << 10) && bytes % (1ull << 10) == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

double rate(std::uint64_t bytes, double seconds) {
  return seconds <= 0 ? 0 : static_cast<double>(bytes) / seconds / 1e9;
}

// One peer allocates, another reads.
void one_size(Findings& findings, Peer& from, Peer& to, std::uint64_t bytes) {
  const auto name = size_text(bytes);
  const Message made = from.execute({{"do", "make"}, {"bytes", bytes}, {"value", 7}});
  if (const auto error = error_of(made); !error.empty())
    return findings.holds(name + ": made", false, error);
  const Json mapped = made.json["mapped_bytes"];
  const Message got = to.execute({{"do", "import"}, {"mapped_bytes", mapped}}, made.fds);
  if (const auto error = error_of(got); !error.empty())
    return findings.holds(name + ": imported", false, error);
  const Message seen =
      to.execute({{"do", "check"}, {"bytes", bytes}, {"value", 7}}, {}, Duration(120s));
  findings.holds(name + ": the same bytes in the other process",
                 error_of(seen).empty() && seen.json["wrong_bytes"] == 0, seen.json.dump());
  if (bytes < (1u << 20)) return;
  const int rounds = bytes >= (1ull << 30) ? 3 : 20;
  const Message copied = to.execute(
      {{"do", "copies"}, {"bytes", bytes}, {"rounds", rounds}, {"value", 7}}, {}, Duration(120s));
  if (const auto error = error_of(copied); !error.empty())
    return findings.holds(name + ": copied", false, error);
  findings.holds(name + ": copied right", copied.json["wrong_bytes"] == 0);
  const double between = copied.json["between_s"], timeout = copied.json["within_s"];
  findings.value(name + ": out of the other process's memory", rate(bytes, between), "GB/s");
  findings.value(name + ": within its own", rate(bytes, timeout), "GB/s");
  findings.value(name + ": ratio", between <= 0 ? 0 : timeout / between);
}

// An exporter that exits during use, and a descriptor in a process without CUDA at that time.
void outlives(Findings& findings, std::uint64_t bytes, bool holds_device) {
  const std::string what = holds_device ? "with the device node held" : "without the device node";
  const Fd device(holds_device ? ::open("/dev/nvidia0", O_RDWR | O_CLOEXEC) : -1);
  if (holds_device && !device)
    return findings.value("parked, " + what, "not tried: /dev/nvidia0 cannot be opened");
  auto from = opened(findings);
  if (!from) return;
  Message made = from->execute({{"do", "make"}, {"bytes", bytes}, {"value", 9}});
  if (const auto error = error_of(made); !error.empty())
    return findings.holds("parked, " + what, false, error);
  from->kill();
  // No context exists now: the driver may shut the device down if nothing holds it.
  std::this_thread::sleep_for(std::chrono::milliseconds(findings.brief() ? 50 : 1500));
  auto to = opened(findings);
  if (!to) return;
  Message seen =
      to->execute({{"do", "import"}, {"mapped_bytes", made.json["mapped_bytes"]}}, made.fds);
  if (error_of(seen).empty()) seen = to->execute({{"do", "check"}, {"bytes", bytes}, {"value", 9}});
  const bool same = error_of(seen).empty() && seen.json.value("wrong_bytes", 1) == 0;
  findings.value("a parked descriptor outlives its maker, " + what,
                 same ? "yes" : "no: " + seen.json.dump());
}

void killed_while_read(Findings& findings, std::uint64_t bytes) {
  auto from = opened(findings), to = opened(findings);
  if (!from || !to) return;
  const Message made = from->execute({{"do", "make"}, {"bytes", bytes}, {"value", 5}});
  const Message got =
      error_of(made).empty()
          ? to->execute({{"do", "import"}, {"mapped_bytes", made.json["mapped_bytes"]}}, made.fds)
          : Message{made.json};
  if (const auto error = error_of(got); !error.empty())
    return findings.holds("killed while it is read", false, error);
  to->tell(
      {{"do", "copies"}, {"bytes", bytes}, {"rounds", findings.brief() ? 20 : 400}, {"value", 5}});
  from->kill();
  const Message copied = to->answer(Duration(60s));
  findings.holds("an exporter that is killed while it is read: the reader has the right bytes",
                 error_of(copied).empty() && copied.json["wrong_bytes"] == 0, copied.json.dump());
}

}  // namespace

void inspect_machine(Findings& findings) {
  utsname machine{};
  ::uname(&machine);
  findings.value("kernel", std::string(machine.release));
  findings.value("processors", std::thread::hardware_concurrency());
  findings.value("C library", std::string(::gnu_get_libc_version()));
  std::error_code failed;
  const auto shared = std::filesystem::space("/dev/shm", failed);
  if (!failed) findings.value("free in /dev/shm", shared.available >> 20, "MiB");
  const auto settings =
      run_command({"/usr/bin/env", "nvidia-smi",
                   "--query-gpu=compute_mode,persistence_mode,mig.mode.current,pcie.link.gen.max",
                   "--format=csv,noheader"},
                  {}, 5s);
  if (settings.code == 0)
    findings.value("compute mode, persistence, MIG, PCIe generation",
                   settings.out.substr(0, settings.out.find('\n')));
  const auto nvml = Nvml::open(Nvml::library_name());
  if (!nvml) {
    findings.value("nvml", nvml.error().text);
  } else {
    const auto version = nvml->driver_version();
    findings.value("driver", version ? *version : version.error().text);
    const auto devices = nvml->devices();
    for (const NvmlDevice& each : devices ? *devices : std::vector<NvmlDevice>()) {
      findings.value(
          fmt::format("GPU {}", each.index),
          Json{{"name", each.name}, {"memory_bytes", each.memory_bytes}, {"mig", each.mig_mode}});
    }
  }
  const auto nccl = NcclLibrary::open();
  findings.value("nccl", nccl ? nccl_version_text((*nccl)->version()) : nccl.error().text);
  Peer peer;
  const auto before =
      nvml ? nvml->used_bytes(0) : Result<std::uint64_t>(failure(ErrorCode::not_found, ""));
  const Message opened = peer.execute({{"do", "open"}});
  if (const auto error = error_of(opened); !error.empty())
    return findings.cannot("no context: " + error);
  findings.value("device", opened.json["name"]);
  findings.value("cuda driver", opened.json["driver"]);
  if (!nvml) return;
  // NVML may list a process a moment after its context exists.
  bool found = false;
  for (const Time until = monotonic_now() + 1s; !found && monotonic_now() < until;
       std::this_thread::sleep_for(std::chrono::milliseconds(10))) {
    const auto users = nvml->users(0);
    for (const DeviceUser& user : users ? *users : std::vector<DeviceUser>()) {
      if (user.process != static_cast<unsigned>(peer.pid())) continue;
      found = true;
      if (user.used_bytes)
        findings.value("a context by NVML's list of processes", *user.used_bytes, "bytes");
    }
  }
  findings.value("NVML lists processes of this machine by their ids", found);
  const auto after = nvml->used_bytes(0);
  if (before && after)
    findings.value("a context by the device's total",
                   static_cast<std::int64_t>(*after) - static_cast<std::int64_t>(*before), "bytes");
}

void share_memory(Findings& findings) {
  std::vector<std::uint64_t> sizes{1, 65'535, 65'537, 2u << 20, (2u << 20) + 1};
  if (!findings.brief()) sizes.insert(sizes.end(), {256ull << 20, 1ull << 30, 8ull << 30});
  for (const std::uint64_t size : sizes) {
    // New processes for each size, so that no state of the previous size remains.
    auto from = opened(findings), to = opened(findings);
    if (!from || !to) return;
    one_size(findings, *from, *to, size);
  }
  killed_while_read(findings, findings.brief() ? 4u << 20 : 512u << 20);
  outlives(findings, 4u << 20, false);
  outlives(findings, 4u << 20, true);
}

void compare_copy_paths(Findings& findings) {
  findings.scope("the driver's calls alone: device tensors of executors are not measured here");
  std::vector<std::uint64_t> sizes{1u << 10, 1u << 20, 4u << 20};
  if (!findings.brief()) sizes.insert(sizes.end(), {64ull << 20, 1ull << 30, 4ull << 30});
  auto from = opened(findings), to = opened(findings);
  if (!from || !to) return;
  for (const std::uint64_t size : sizes) {
    const auto name = size_text(size);
    const Message made = from->execute({{"do", "make"}, {"bytes", size}, {"value", 3}});
    const Message got =
        error_of(made).empty()
            ? to->execute({{"do", "import"}, {"mapped_bytes", made.json["mapped_bytes"]}}, made.fds)
            : Message{made.json};
    if (const auto error = error_of(got); !error.empty()) {
      findings.value(name, "not measured: " + error);
      continue;
    }
    const Message direct = to->execute(
        {{"do", "copies"}, {"bytes", size}, {"rounds", 5}, {"value", 3}}, {}, Duration(60s));
    const Message host = to->execute({{"do", "by host"}, {"bytes", size}}, {}, Duration(60s));
    if (!error_of(direct).empty() || !error_of(host).empty()) {
      findings.holds(name, false, direct.json.dump() + host.json.dump());
      continue;
    }
    findings.holds(name + ": right", direct.json["wrong_bytes"] == 0);
    const double by_device = direct.json["between_s"], by_host = host.json["seconds"];
    findings.value(name + ": on the device", by_device, "s");
    findings.value(name + ": to host memory and back", by_host, "s");
    findings.value(name + ": times as fast", by_device <= 0 ? 0 : by_host / by_device);
  }
}

// Memory of a process as NVML reports it; 0 if unknown.
std::uint64_t bytes_of(const Nvml& nvml, pid_t process) {
  const auto users = nvml.users(0);
  for (const DeviceUser& user : users ? *users : std::vector<DeviceUser>()) {
    if (user.process == static_cast<unsigned>(process)) return user.used_bytes.value_or(0);
  }
  return 0;
}

// Reaction of an agent to an executor with this use (worker/core/gpu_guard.h).
std::vector<worker::GpuVerdict> judged(worker::GpuGuard& guard, std::uint64_t bytes,
                                       std::uint64_t share) {
  const SlotId slot = SlotId::derived(JobId(), "holder", 1);
  const worker::GpuUse use{.device = 0,
                           .uuid = "the GPU of this run",
                           .per_process = true,
                           .used_bytes = static_cast<std::int64_t>(bytes),
                           .executors = {{slot, 1, static_cast<std::int64_t>(bytes)}}};
  const worker::GpuHolder holder{.slot = slot,
                                 .generation = 1,
                                 .device = 0,
                                 .share_bytes = static_cast<std::int64_t>(share),
                                 .name = "the holder"};
  return guard.evaluate({{use}}, {&holder, 1});
}

void keep_to_shares(Findings& findings) {
  const std::uint64_t mib = 1u << 20;
  auto holder = opened(findings);
  if (!holder) return;
  const auto nvml = Nvml::open(Nvml::library_name());
  const std::uint64_t context = nvml ? bytes_of(*nvml, holder->pid()) : 0;
  const Message answer = holder->execute({{"do", "share"},
                                          {"share", 64 * mib},
                                          {"fits", 48 * mib},
                                          {"beyond", 32 * mib},
                                          {"rogue", 128 * mib}});
  if (const auto error = error_of(answer); !error.empty())
    return findings.holds("shares", false, error);
  findings.holds("an allocation within the share succeeds", answer.json["fits"] == true);
  findings.holds("an allocation beyond the share is refused", answer.json["refused"] == true,
                 answer.json.value("refusal", ""));
  findings.holds("an allocation that bypasses the allocator is not prevented",
                 answer.json["rogue"] == true);
  if (!nvml) return findings.value("by process", "not measured: " + nvml.error().text);
  const std::uint64_t seen = bytes_of(*nvml, holder->pid());
  const auto full = nvml->used_bytes(0);
  if (seen > 0) {
    findings.holds("and is seen, by process", seen >= 176 * mib, fmt::format("{} bytes", seen));
    const worker::WorkerOptions options;
    worker::GpuGuard guard(options);
    const std::uint64_t share = context + 64 * mib;
    findings.holds("the guard finds nothing in a process that keeps to its share",
                   judged(guard, context + 48 * mib, share).empty());
    const auto verdicts = judged(guard, seen, share);
    const bool caught =
        verdicts.size() == 1 && verdicts[0].on && verdicts[0].reacts == Reacts::error;
    findings.holds("the guard catches it", caught,
                   caught ? verdicts[0].text : fmt::format("{} bytes of {}", seen, share));
  } else {
    findings.value("by process", "not to be seen here: NVML lists no such id");
  }
  holder->kill();
  bool back = false;
  std::uint64_t left = 0;
  const auto begin = monotonic_now();
  for (; full && monotonic_now() - begin < Duration(15s) && !back;) {
    const auto now = nvml->used_bytes(0);
    if (!now) break;
    left = *now;
    back = *full >= left + 170 * mib;
    if (!back) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  findings.holds("its bytes are free after it is killed", back,
                 fmt::format("{} bytes are left", left));
  findings.value("after", std::chrono::duration<double>(monotonic_now() - begin).count(), "s");
}

}  // namespace mobula::internal::gpu_check
