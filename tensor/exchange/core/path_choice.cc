#include "tensor/exchange/core/path_choice.h"

#include <algorithm>
#include <array>

#include "base/model/nccl_rank.h"

namespace mobula::internal::transfer {
namespace {

constexpr std::array best_first{DirectPath::inproc, DirectPath::cuda_ipc, DirectPath::shm,
                                DirectPath::nccl,   DirectPath::ucx,      DirectPath::tcp,
                                DirectPath::staged, DirectPath::store};

class Judge {
 public:
  explicit Judge(const PathQuestion& question) : q_(question) {}

  // Empty: the path is usable.
  std::string why_not(DirectPath path) const {
    if (q_.from.process == q_.to.process && path != DirectPath::inproc)
      return "both ends are in one process";
    const auto where = misplaced(path);
    if (!where.empty()) return where;
    if (path == DirectPath::inproc || path == DirectPath::store) return {};
    for (const auto* side : {&q_.from, &q_.to}) {
      const auto support = side->paths.find(path);
      const std::string who = side == &q_.from ? "the holder" : "the receiver";
      if (support == side->paths.end()) return who + " does not have it";
      if (!support->second.why_not.empty()) return who + ": " + support->second.why_not;
    }
    const auto& a = q_.from.paths.at(path).version;
    const auto& b = q_.to.paths.at(path).version;
    if (a != b) return "the versions differ: " + a + " and " + b;
    if (!same_machine() && is_plain(path) && !q_.trusted) return "fabric not trusted";
    return path == DirectPath::nccl ? why_not_shared() : "";
  }

 private:
  static bool is_plain(DirectPath path) { return path == DirectPath::nccl || is_of_plugin(path); }
  bool same_machine() const { return !q_.from.machine.empty() && q_.from.machine == q_.to.machine; }
  bool is_named(DirectPath path) const { return q_.named == path; }

  bool on_one_device() const {
    return same_machine() && q_.source.is_device() && q_.source.device == q_.destination.device;
  }
  std::string why_not_shared() const {
    if (!on_one_device()) return {};
    const auto rank = [this](const char* role, const ProcessReach& process) {
      return NcclRank{.name = role + process.process.brief(),
                      .host = process.machine,
                      .gpu = q_.source.device,
                      .version = process.paths.at(DirectPath::nccl).version,
                      .shares_gpu = process.nccl_shares_gpu};
    };
    const auto why =
        objection_to_sharing({rank("the holder ", q_.from), rank("the receiver ", q_.to)});
    return why ? why->text : "";
  }

  std::string misplaced(DirectPath path) const {
    const auto& source = q_.source;
    const auto& destination = q_.destination;
    const bool both_devices = source.is_device() && destination.is_device();
    const bool no_device = !source.is_device() && !destination.is_device();
    switch (path) {
      case DirectPath::inproc:
        if (q_.from.process != q_.to.process) return "the ends are in two processes";
        return q_.may_alias ? "" : "a separate copy is requested";
      case DirectPath::cuda_ipc:
        if (!both_devices) return "one end is not in device memory";
        if (!same_machine()) return "the ends are on two machines";
        if (!source.exportable) return "the memory is not of the runtime's device arena";
        if (source.device != destination.device && !q_.peer_access)
          return "the two devices cannot reach each other";
        return {};
      case DirectPath::shm:
        if (!no_device && !is_named(path)) return "one end is in device memory";
        if (!same_machine()) return "the ends are on two machines";
        return {};
      case DirectPath::nccl:
        if (!both_devices) return "one end is not in device memory";
        if (on_one_device() && !is_named(path))
          return "both ends are on one device, where only a transfer that names nccl uses it";
        return {};
      case DirectPath::ucx:
        if (!no_device && !is_named(path)) {
          if (!q_.from.ucx_devices || !q_.to.ucx_devices)
            return "this UCX does not know device memory";
        }
        if (same_machine() && !is_named(path)) return "on one machine shared memory is better";
        if (!is_named(path) && !(q_.from.rdma && q_.to.rdma))
          return "no RDMA between the two machines";
        return {};
      case DirectPath::gloo:
      case DirectPath::nixl: return {};
      case DirectPath::tcp:
        if (!no_device && !is_named(path)) return "one end is in device memory";
        if (same_machine() && !is_named(path) && why_not(DirectPath::shm).empty())
          return "on one machine shared memory is better";
        return {};
      case DirectPath::staged: return no_device ? "both ends are in host memory" : "";
      case DirectPath::store: return {};
    }
    return "unknown";
  }

  const PathQuestion& q_;
};

}  // namespace

bool is_better(DirectPath path, DirectPath than) {
  const auto rank = [](DirectPath each) {
    return std::ranges::find(best_first, each) - best_first.begin();
  };
  return rank(path) < rank(than);
}

PathChoice choose_paths(const PathQuestion& question) {
  const Judge judge(question);
  PathChoice choice;
  const auto consider = [&](DirectPath path) {
    const auto why = judge.why_not(path);
    if (why.empty()) {
      choice.paths.push_back(path);
    } else {
      choice.refusals.push_back({path, why});
      if (choice.paths.empty()) ++choice.better;
    }
  };
  if (question.named) consider(*question.named);
  if (!question.named || question.allow_fallback) {
    for (const auto path : best_first) {
      if (path != question.named) consider(path);
    }
  }
  if (!choice.paths.empty()) {
    const auto first = choice.paths.front();
    const bool leaves =
        question.from.machine.empty() || question.from.machine != question.to.machine;
    const bool seals =
        first == DirectPath::tcp || first == DirectPath::staged || first == DirectPath::store;
    choice.sealed = leaves && seals && !question.trusted;
  }
  return choice;
}

}  // namespace mobula::internal::transfer
