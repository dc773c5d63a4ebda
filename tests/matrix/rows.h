// Required properties of each transport path: rows of behaviors, each with parts. Each part lists
// the paths that must prove it on real hardware (R) or on simulated GPUs (S), and the paths without
// it (-). Tests record the parts that they prove (cells.h). The program transport_matrix prints the
// proven table and fails if a proof is missing. A row without a part for a path that the row
// requires does not compile.
// Thread: any.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace mobula::matrix {

// `staged`: through host memory or the object store. `carried`: the tests' plugin. `nixl`: a plugin
// that is built if its headers exist.
enum class Column : std::uint8_t {
  inproc,
  shm,
  tcp,
  staged,
  gloo,
  ucx,
  cuda_ipc,
  nccl,
  carried,
  nixl
};
inline constexpr std::array<std::string_view, 10> column_names{
    "inproc", "shm", "tcp", "staged, store", "gloo", "ucx", "cuda_ipc", "nccl", "carried", "nixl"};
// Number of required columns. The other columns show the proofs that exist.
inline constexpr std::size_t wanted_columns = 8;

enum class Part : std::uint8_t {
  sizes,
  gibibyte,
  regions,
  layouts,
  mixed_devices,
  refs,
  graphs,
  unfinished_kernel,
  busy_holder,
  killed_holder,
  killed_receiver,
  stopped,
  cancelled,
  endless_abort,
  strangers,
  link_cut,
  link_slow,
  link_loss,
  missing,
  strict,
  budget,
  dropped_midway,
  holder_leaves,
  cycles,
  masks,
  untrusted,
  shared_memory,
  sticky_error,
  address_sanitizer,
  thread_sanitizer,
  size_mismatch,
  lying_ticket,
  closing,
  several_readers,
  copied_offer,
  in_place,
  descriptor_limit,
  memory_limit,
  one_step,
  hanging_kernel,
  reachable_bytes,
  failing_driver,
  stopped_receiver,
  capturing_holder,
};

// Expensive parts are required only in the long run.
enum class RunWhen : std::uint8_t { always, large, sanitized };

struct PartRow {
  Part part;
  std::string_view name;    // in files of cells and in reports of missing proofs
  int row;                  // index in `rows`
  std::string_view wanted;  // one letter per required column; B: real and simulated
  RunWhen run_when = RunWhen::always;
};

struct Row {
  std::string_view behaviour;
  std::string_view wanted;
};

inline constexpr std::array<Row, 34> rows{{
    {"sizes 0, 1, 64 KiB±1, 2 MiB±1, 1 GiB; odd offsets; checksum", "RRRRRRSS"},
    {"many regions, mixed devices, strided, 0-d, every dtype", "RRRRRRSS"},
    {"same ref twice, 20 consumers, tuple, nested, put, get from a driver", "RRRRRRSS"},
    {"opposite pair, ring of 8, random graphs, crossing opens", "-RRRRRSS"},
    {"producer's kernel unfinished; consumer on own stream", "S--S--SS"},
    {"holder busy 10 s in user code, in an allocation loop, in a graph capture", "RRRRRRSS"},
    {"SIGKILL of the holder before, during, after; of the receiver", "-RRRRRSS"},
    {"SIGSTOP beyond the limit, then CONT: nothing written late", "-RRRRRSS"},
    {"cancel before, during, after; poison intact after quiet", "RRRRRRSS"},
    {"abort never ends: executor replaced, or the library left behind", "----RR-S"},
    {"stale epoch, absent peer, version mismatch", "-RR-RRSS"},
    {"link cut, delay, loss (namespaces, proxy)", "--RRRR-S"},
    {"library missing, no driver, too old: reason, next path; strict: error", "---RRRBB"},
    {"receive budget; a task whose arguments exceed it", "RRRRRRSS"},
    {"owner drops the ref or dies mid-pull; holder exits: park, evacuate", "RRRRRRSS"},
    {"1,000 cycles: bytes, fds, threads, VRAM back to the start", "RRRRRRSS"},
    {"different masks, ordinals, UUIDs, MIG ids", "---S--SS"},
    {"untrusted fabric refused; encryption shown", "--RRRR-R"},
    {"mutable_view, wait_tensor_freed, same-actor alias", "RRRRRRSS"},
    {"sticky CUDA error: objects lost, executor replaced", "S--S--SS"},
    {"thread and address sanitizers clean", "RRRRRRSS"},
    {"sizes that differ are refused before a byte moves", "RRR-RRS-"},
    {"a lying ticket, each byte of it", "RRR-RRS-"},
    {"close, peer_down and shutdown end what they say, and nothing else", "RRR-RRS-"},
    {"two destinations at once", "RRR-RRS-"},
    {"memory that the receiver cannot read in place", "RRR-RRS-"},
    {"mapped in place, and told when it is over", "RR----S-"},
    {"descriptor limit: fails and works again", "-RR-RR--"},
    {"memory limits: fails and works again", "-R------"},
    {"one step at a time on a device", "-------S"},
    {"a kernel that hangs: the channel is lost, the process is not", "-------S"},
    {"bytes are freed after the last reader", "------S-"},
    {"a driver that fails: typed, and no more than that", "------S-"},
    {"SIGSTOP of the receiver, release, CONT: no wrong success", "-RR-RRS-"},
}};

inline constexpr std::array<PartRow, 44> parts{{
    {Part::sizes, "sizes", 0, "RRRRRRSS"},
    {Part::gibibyte, "gibibyte", 0, "RRRRRRSS", RunWhen::large},
    {Part::regions, "regions", 1, "RRRRRRSS"},
    {Part::layouts, "layouts", 1, "RRRRRRSS"},
    {Part::mixed_devices, "mixed_devices", 1, "---S--SS"},
    {Part::refs, "refs", 2, "RRRRRRSS"},
    {Part::graphs, "graphs", 3, "-RRRRRSS"},
    {Part::unfinished_kernel, "unfinished_kernel", 4, "S--S--SS"},
    {Part::busy_holder, "busy_holder", 5, "RRRRRRSS"},
    {Part::killed_holder, "killed_holder", 6, "-RRRRRSS"},
    {Part::killed_receiver, "killed_receiver", 6, "-RRRRRSS"},
    {Part::stopped, "stopped", 7, "-RRRRRSS"},
    {Part::cancelled, "cancelled", 8, "RRRRRRSS"},
    {Part::endless_abort, "endless_abort", 9, "----RR-S"},
    {Part::strangers, "strangers", 10, "-RR-RRSS"},
    {Part::link_cut, "link_cut", 11, "--RRRR-S"},
    {Part::link_slow, "link_slow", 11, "--RRRR--"},
    {Part::link_loss, "link_loss", 11, "--R-RR--"},
    {Part::missing, "missing", 12, "---RRRBB"},
    {Part::strict, "strict", 12, "----RRBB"},
    {Part::budget, "budget", 13, "RRRRRRSS"},
    {Part::dropped_midway, "dropped_midway", 14, "RRRRRRSS"},
    {Part::holder_leaves, "holder_leaves", 14, "RRRRRRSS"},
    {Part::cycles, "cycles", 15, "RRRRRRSS"},
    {Part::masks, "masks", 16, "---S--SS"},
    {Part::untrusted, "untrusted", 17, "--RRRR-R"},
    {Part::shared_memory, "shared_memory", 18, "RRRRRRSS"},
    {Part::sticky_error, "sticky_error", 19, "S--S--SS"},
    {Part::address_sanitizer, "address_sanitizer", 20, "RRRRRRSS", RunWhen::sanitized},
    {Part::thread_sanitizer, "thread_sanitizer", 20, "RRRRRRSS", RunWhen::sanitized},
    {Part::size_mismatch, "size_mismatch", 21, "RRR-RRS-"},
    {Part::lying_ticket, "lying_ticket", 22, "RRR-RRS-"},
    {Part::closing, "closing", 23, "RRR-RRS-"},
    {Part::several_readers, "several_readers", 24, "RRR-RRS-"},
    {Part::copied_offer, "copied_offer", 25, "RRR-RRS-"},
    {Part::in_place, "in_place", 26, "RR----S-"},
    {Part::descriptor_limit, "descriptor_limit", 27, "-RR-RR--"},
    {Part::memory_limit, "memory_limit", 28, "-R------"},
    {Part::one_step, "one_step", 29, "-------S"},
    {Part::hanging_kernel, "hanging_kernel", 30, "-------S"},
    {Part::reachable_bytes, "reachable_bytes", 31, "------S-"},
    {Part::failing_driver, "failing_driver", 32, "------S-"},
    {Part::stopped_receiver, "stopped_receiver", 33, "-RR-RRS-"},
    {Part::capturing_holder, "capturing_holder", 5, "---S--SS"},
}};

constexpr const PartRow& row_of(Part part) { return parts[static_cast<std::size_t>(part)]; }

// Every part is at its own index. A row requires a path exactly if one of its parts does.
constexpr bool is_whole() {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].part != static_cast<Part>(i) || parts[i].wanted.size() != wanted_columns)
      return false;
  }
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (std::size_t column = 0; column < wanted_columns; ++column) {
      const char wanted = rows[row].wanted[column];
      bool shown = wanted == '-';
      for (const PartRow& each : parts) {
        if (each.row != static_cast<int>(row)) continue;
        const char letter = each.wanted[column];
        if (letter != '-' && wanted == '-') return false;
        shown = shown || letter == wanted;
      }
      if (!shown) return false;
    }
  }
  return true;
}
static_assert(is_whole());

}  // namespace mobula::matrix
