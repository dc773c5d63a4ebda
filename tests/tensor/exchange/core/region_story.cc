#include "tensor/exchange/core/region_story.h"

namespace mobula::internal::transfer {
namespace {

std::string describe(const RegionMessage& message) {
  const auto text = [](const char* what, std::uint64_t transfer, const std::string& more = {}) {
    return std::string(what) + " " + std::to_string(transfer) + (more.empty() ? "" : " " + more);
  };
  if (const auto* a = std::get_if<PullTensorRequest>(&message)) {
    return text("pull", a->transfer,
                a->object.brief() + (a->part == 0 ? "" : " part " + std::to_string(a->part)) + " " +
                    std::string(to_string(a->path)));
  }
  if (const auto* b = std::get_if<PullTensorReply>(&message))
    return text("ready", b->transfer, b->ticket + " epoch " + std::to_string(b->epoch));
  if (const auto* c = std::get_if<PullTensorQueued>(&message)) return text("wait", c->transfer);
  if (const auto* d = std::get_if<PullTensorRejected>(&message)) {
    std::string others;
    for (const auto each : d->others) others += " " + each.brief();
    return text("refused", d->transfer, std::string(to_string(d->why)) + " " + d->text + others);
  }
  if (const auto* e = std::get_if<PullTensorComplete>(&message))
    return text("taken", e->transfer, e->keeps ? "and kept" : "");
  if (const auto* f = std::get_if<PullTensorCancelled>(&message))
    return text("left", f->transfer, std::to_string(f->epoch));
  if (const auto* g = std::get_if<TwoSidedStep>(&message)) {
    const char* phase = g->phase == TwoSidedStep::Phase::wanted ? "wanted"
                        : g->phase == TwoSidedStep::Phase::go   ? "go"
                                                                : "lower_ready";
    return text("step", g->transfer,
                std::to_string(g->step) + " " + phase + (g->opens ? " opens" : "") +
                    (g->from_receiver ? " R" : " H") + " epoch " + std::to_string(g->epoch));
  }
  if (std::holds_alternative<CloseConnectionRequest>(message)) return "parting";
  if (std::holds_alternative<CloseConnectionReply>(message)) return "parted";
  return "copy gone";
}

}  // namespace

std::string describe(const RegionCommand& command) {
  if (const auto* a = std::get_if<SendRegions>(&command))
    return "-> " + a->to.brief() + " " + describe(a->message);
  if (const auto* b = std::get_if<OfferTensor>(&command))
    return "export " + std::to_string(b->operation) + " " + b->object.brief() + " for " +
           b->peer.brief();
  if (const auto* c = std::get_if<WithdrawOffer>(&command))
    return "unexport " + std::to_string(c->operation);
  if (const auto* d = std::get_if<PullChunk>(&command))
    return "fetch " + std::to_string(d->operation) + " pull " + std::to_string(d->pull);
  if (const auto* e = std::get_if<IssueStep>(&command)) {
    return "issue " + std::to_string(e->operation) + " pull " + std::to_string(e->pull) + " with " +
           e->peer.brief() + " epoch " + std::to_string(e->epoch) +
           (e->opens ? " opens" : " from " + std::to_string(e->offset));
  }
  if (const auto* f = std::get_if<Cancel>(&command))
    return "cancel " + std::to_string(f->operation);
  if (const auto* g = std::get_if<DropChannel>(&command))
    return "drop channel " + g->peer.brief() + " below " + std::to_string(g->epoch);
  if (const auto* h = std::get_if<FreeRegions>(&command)) return "free " + h->object.brief();
  if (const auto* i = std::get_if<StoreRegions>(&command)) return "store " + i->object.brief();
  if (const auto* j = std::get_if<ResolveHolder>(&command)) return "look up " + j->object.brief();
  if (const auto* l = std::get_if<Reach>(&command))
    return "reach " + l->replica_holder.brief() + " for pull " + std::to_string(l->pull);
  if (const auto* k = std::get_if<TurnTaken>(&command))
    return "turn of claim " + std::to_string(k->claim);
  if (const auto* m = std::get_if<Part>(&command))
    return "parts from " + m->holder.brief() + (m->again ? ", and asks again" : "");
  const auto& ended = std::get<PullEnded>(command);
  const auto* failed = std::get_if<Failure>(&ended.outcome);
  return "pull " + std::to_string(ended.pull) + " ends: " +
         (failed                       ? failed->text
          : ended.outcome.index() == 0 ? "here"
                                       : "in the store");
}

}  // namespace mobula::internal::transfer
