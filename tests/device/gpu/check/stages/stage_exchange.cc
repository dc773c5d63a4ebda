// Stages in which Mobula's own exchange moves tensors between processes of one GPU that act as
// separate hosts, and events that must not disturb a serving process.
#include <fmt/format.h>

#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "device/gpu/check/exchange_work.h"
#include "device/gpu/check/peers.h"

namespace mobula::internal::gpu_check {
namespace {

// Peers with one exchange each; empty, with the reason, if one cannot start.
class Group {
 public:
  // `fabric`: empty for no trusted fabric.
  Group(int count, const std::string& fabric, std::string& why) {
    char pattern[] = "/tmp/gpu-check-x-XXXXXX";
    directory_ = ::mkdtemp(pattern) == nullptr ? std::string("/tmp") : std::string(pattern);
    const Json cluster = fresh_cluster();
    for (int i = 0; i < count && why.empty(); ++i) {
      const std::string host = fmt::format("host{}", i);
      peers_.emplace_back(as_on_host(host));
      const Message started = peers_.back().execute({{"do", "exchange"},
                                                     {"cluster", cluster},
                                                     {"number", i + 1},
                                                     {"host", host},
                                                     {"folder", directory_},
                                                     {"fabric", fabric}});
      why = error_of(started);
    }
    if (!why.empty()) peers_.clear();
  }
  ~Group() {
    peers_.clear();
    std::error_code ignored;
    if (directory_ != "/tmp") std::filesystem::remove_all(directory_, ignored);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  bool ok() const { return !peers_.empty(); }
  std::size_t size() const { return peers_.size(); }
  Peer& at(std::size_t which) { return peers_[which % peers_.size()]; }

  // Registers elements in peer `which`; returns their ref.
  std::string register_tensor(std::size_t which, std::uint64_t object, std::uint64_t bytes,
                              std::string& why) {
    const Message made = at(which).execute(
        {{"do", "publish"}, {"object", object}, {"bytes", bytes}}, {}, Duration(60s));
    why = error_of(made);
    return made.json.value("ref", std::string());
  }

 private:
  std::string directory_;
  std::vector<Peer> peers_;
};

std::string seen_of(const Message& answer) {
  const auto error = error_of(answer);
  return error.empty() ? answer.json.dump() : error;
}

bool is_right(const Message& answer, const std::string& path) {
  return error_of(answer).empty() && answer.json.value("wrong_bytes", 1) == 0 &&
         answer.json.value("path", "") == path;
}

// Each peer pulls from the previous one at the same time: two peers transfer in both directions,
// three form a ring.
void round(Findings& findings, Group& group, const std::string& path, std::uint64_t bytes,
           std::uint64_t& objects) {
  const std::string name = fmt::format(
      "{} processes, {} bytes by {}, each from the one before at once", group.size(), bytes, path);
  std::vector<std::string> refs;
  const std::uint64_t first = objects + 1;
  for (std::size_t i = 0; i < group.size(); ++i) {
    std::string why;
    refs.push_back(group.register_tensor(i, ++objects, bytes, why));
    if (!why.empty()) return findings.holds(name, false, why);
  }
  for (std::size_t i = 0; i < group.size(); ++i) {
    const std::size_t before = (i + group.size() - 1) % group.size();
    group.at(i).tell({{"do", "pull"}, {"ref", refs[before]}, {"path", path}});
  }
  bool right = true;
  std::string seen;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const Message answer = group.at(i).answer(Duration(90s));
    right = right && is_right(answer, path);
    if (!is_right(answer, path)) seen = seen_of(answer);
  }
  findings.holds(name, right, seen);
  for (std::size_t i = 0; i < group.size(); ++i)
    (void)group.at(i).execute({{"do", "retire"}, {"object", first + i}});
}

}  // namespace

void tensors_between_hosts(Findings& findings) {
  findings.scope(
      "Mobula's exchange of tensors between processes of one GPU, as if on separate hosts; "
      "without agents and head. No figure here says anything about NCCL's speed");
  std::uint64_t objects = 0;
  for (const int count : {2, 3}) {
    std::string why;
    Group group(count, "gpu-check", why);
    if (!group.ok()) return findings.cannot("no exchange: " + why);
    std::vector<std::uint64_t> sizes{0, 1, 65'535, 65'537, (2u << 20) + 1};
    if (!findings.brief()) sizes.insert(sizes.end(), {64ull << 20, 256ull << 20});
    for (const auto size : sizes) round(findings, group, "nccl", size, objects);
  }
}

void tensors_by_the_host(Findings& findings) {
  findings.scope("by pinned slices and sealed TCP of the loopback, between processes of one GPU");
  std::string why;
  Group group(2, "", why);
  if (!group.ok()) return findings.cannot("no exchange: " + why);
  std::uint64_t objects = 0;
  std::vector<std::uint64_t> sizes{1, (4u << 20) - 1, (4u << 20) + 1, 20u << 20};
  if (!findings.brief()) sizes.insert(sizes.end(), {256ull << 20, 1ull << 30});
  for (const auto size : sizes) {
    const auto ref = group.register_tensor(0, ++objects, size, why);
    if (!why.empty()) return findings.holds(fmt::format("{} bytes", size), false, why);
    const Message answer =
        group.at(1).execute({{"do", "pull"}, {"ref", ref}, {"path", "staged"}}, {}, Duration(90s));
    findings.holds(fmt::format("{} bytes arrive sealed, whole and on the device", size),
                   is_right(answer, "staged") && answer.json.value("on_device", false) &&
                       answer.json.value("encrypted", false),
                   seen_of(answer));
    const double seconds = answer.json.value("seconds", 0.0);
    if (size >= (20u << 20) && seconds > 0)
      findings.value(fmt::format("{} bytes", size), static_cast<double>(size) / seconds / 1e9,
                     "GB/s");
    (void)group.at(0).execute({{"do", "retire"}, {"object", objects}});
  }
}

namespace {

// NCCL opens a communicator while the holder captures. In the default mode of CUDA, the capture
// and the communicator fail; in the thread-local mode, both succeed.
void open_during_capture(Findings& findings, int mode, const std::string& when, bool succeeds) {
  std::string why;
  Group group(2, "gpu-check", why);
  if (!group.ok()) return findings.cannot("no exchange: " + why);
  const auto ref = group.register_tensor(0, 1, 3u << 20, why);
  const Message began = group.at(0).execute({{"do", "begin capture"}, {"mode", mode}});
  if (!why.empty() || !error_of(began).empty())
    return findings.value(when, "not measured: " + why + error_of(began));
  const Message answer =
      group.at(1).execute({{"do", "pull"}, {"ref", ref}, {"path", "nccl"}}, {}, Duration(60s));
  const Message ended = group.at(0).execute({{"do", "end capture"}});
  const bool whole = error_of(ended).empty() && ended.json.value("right", false);
  const bool advises = seen_of(answer).find("thread-local mode") != std::string::npos;
  if (succeeds) {
    findings.holds(when + ": the bytes arrive", is_right(answer, "nccl"), seen_of(answer));
    findings.holds(when + ": the graph is whole, and runs", whole, seen_of(ended));
  } else {
    findings.holds(when + ": the transfer fails with advice, or succeeds",
                   advises || is_right(answer, "nccl"), seen_of(answer));
    findings.value(when + ": the graph", whole ? "is whole" : "is broken: " + seen_of(ended));
  }
}

}  // namespace

void serve_undisturbed(Findings& findings) {
  std::string why;
  Group group(2, "gpu-check", why);
  if (!group.ok()) return findings.cannot("no exchange: " + why);
  const std::uint64_t bytes = findings.brief() ? 3u << 20 : 64u << 20;
  std::uint64_t objects = 0;
  const auto pulls = [&](const std::string& when, const std::string& path) {
    const auto ref = group.register_tensor(0, ++objects, bytes, why);
    if (!why.empty()) return findings.holds(when + ", by " + path, false, why);
    const Message answer =
        group.at(1).execute({{"do", "pull"}, {"ref", ref}, {"path", path}}, {}, Duration(60s));
    findings.holds(when + ", by " + path, is_right(answer, path), seen_of(answer));
  };
  pulls("a holder gives before it captures a graph", "nccl");
  const Message began = group.at(0).execute({{"do", "begin capture"}});
  if (const auto error = error_of(began); !error.empty()) {
    findings.value("while work is captured into a graph", "not measured: " + error);
  } else {
    // Registration waits for no stream, because the capture is on another one.
    pulls("a holder gives while it captures a graph", "staged");
    pulls("a holder gives while it captures a graph", "nccl");
    const Message ended = group.at(0).execute({{"do", "end capture"}});
    findings.holds("and the graph is whole, and runs",
                   error_of(ended).empty() && ended.json.value("right", false), seen_of(ended));
  }
  open_during_capture(findings, 1, "a communicator opens during a capture in thread-local mode",
                      true);
  open_during_capture(findings, 0, "a communicator opens during a capture in the default mode",
                      false);
  const Message forked = group.at(0).execute({{"do", "fork"}}, {}, Duration(30s));
  if (const auto error = error_of(forked); !error.empty()) {
    findings.holds("a process that uses CUDA forks", false, error);
  } else {
    findings.value("result of CUDA in a child of a process that uses it", forked.json["child"]);
    findings.holds("a child is not given CUDA that works",
                   forked.json.value("child", "") != "success", forked.json.dump());
  }
  pulls("its parent gives as before", "staged");
}

}  // namespace mobula::internal::gpu_check
