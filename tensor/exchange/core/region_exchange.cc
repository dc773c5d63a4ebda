#include "tensor/exchange/core/region_exchange.h"

#include <algorithm>
#include <variant>

namespace mobula::internal::transfer {

RegionExchange::RegionExchange(ProcessId self, RegionOptions options)
    : context_{self, options}, steps_(context_), serves_(context_, steps_), pulls_(context_, steps_, serves_) {}

void RegionExchange::begin(Time now, Commands& out) {
  context_.now = std::max(context_.now, now);
  context_.out = &out;
}

void RegionExchange::settle() {
  for (auto news = steps_.take_news(); !news.empty(); news = steps_.take_news()) {
    for (const auto& each : news) {
      if (each.key.receives) {
        pulls_.side_news(each);
      } else {
        serves_.side_news(each);
      }
    }
  }
}

void RegionExchange::publish(Time now, ObjectId object, std::uint64_t size_bytes, std::uint32_t lane,
                             Commands& out) {
  begin(now, out);
  serves_.publish(object, size_bytes, lane);
}

void RegionExchange::retire(Time now, ObjectId object, Commands& out) {
  begin(now, out);
  serves_.retire(object);
  settle();
}

void RegionExchange::evacuate(Time now, ObjectId object, Commands& out) {
  begin(now, out);
  serves_.evacuate(object);
  settle();
}

void RegionExchange::stored(Time now, ObjectId object, const std::optional<Failure>& failure, Commands& out) {
  begin(now, out);
  serves_.stored(object, failure);
  settle();
}

Result<std::vector<RegionPullId>> RegionExchange::want(Time now, std::vector<RegionWish> together, bool arguments,
                                                       Commands& out) {
  begin(now, out);
  auto pulls = pulls_.want(std::move(together), arguments);
  settle();
  return pulls;
}

void RegionExchange::unwant(Time now, RegionPullId pull, Commands& out) {
  begin(now, out);
  pulls_.unwant(pull);
  settle();
}

void RegionExchange::located(Time now, ObjectId object, const RegionsLocated& answer, Commands& out) {
  begin(now, out);
  pulls_.located(object, answer);
  settle();
}

void RegionExchange::reached(Time now, RegionPullId pull, ProcessId keeper, std::vector<DirectPath> paths,
                             Commands& out) {
  begin(now, out);
  pulls_.reached(pull, keeper, std::move(paths));
  settle();
}

void RegionExchange::claim_turn(Time now, std::uint32_t lane, std::uint64_t claim, Commands& out) {
  begin(now, out);
  steps_.claim(lane, claim);
  settle();
}

void RegionExchange::return_turn(Time now, std::uint64_t claim, Commands& out) {
  begin(now, out);
  steps_.unclaim(claim);
  settle();
}

void RegionExchange::heard(Time now, ProcessId from, const RegionMessage& message, Commands& out) {
  begin(now, out);
  struct Dispatch {
    RegionExchange& exchange;
    ProcessId from;
    void operator()(const PullRegions& each) const { exchange.serves_.heard(from, each); }
    void operator()(const RegionsTaken& each) const { exchange.serves_.heard(from, each); }
    void operator()(const RegionsLeft& each) const { exchange.serves_.heard(from, each); }
    void operator()(const RegionCopyGone& each) const { exchange.serves_.heard(from, each); }
    void operator()(const RegionsReady& each) const { exchange.pulls_.heard(from, each); }
    void operator()(const RegionsWait& each) const { exchange.pulls_.heard(from, each); }
    void operator()(const RegionsRefused& each) const { exchange.pulls_.heard(from, each); }
    void operator()(const RegionsParting& each) const { exchange.serves_.heard(from, each); }
    void operator()(const RegionsParted& each) const { exchange.pulls_.heard(from, each); }
    void operator()(const RegionStep& each) const { exchange.steps_.heard(from, each); }
  };
  std::visit(Dispatch{*this, from}, message);
  settle();
}

void RegionExchange::peer_gone(Time now, ProcessId peer, Commands& out) {
  begin(now, out);
  steps_.stop_all_with(peer);
  serves_.peer_gone(peer);
  pulls_.peer_gone(peer);
  settle();
}

void RegionExchange::exported(Time now, OperationId operation, const Result<std::string>& ticket, Commands& out) {
  begin(now, out);
  serves_.exported(operation, ticket);
  settle();
}

void RegionExchange::progressed(Time now, OperationId operation) {
  context_.now = std::max(context_.now, now);
  if (!pulls_.progressed(operation)) steps_.progressed(operation);
}

void RegionExchange::ended(Time now, OperationId operation, const std::optional<Failure>& failure, Commands& out) {
  begin(now, out);
  if (!pulls_.ended(operation, failure) && !steps_.ended(operation, failure)) serves_.ended(operation);
  settle();
}

void RegionExchange::tick(Time now, Commands& out) {
  begin(now, out);
  steps_.tick();
  settle();
  pulls_.tick();
  serves_.tick();
  settle();
}

std::optional<Time> RegionExchange::next_deadline() const {
  std::optional<Time> first;
  for (const auto& due : {steps_.next_deadline(), pulls_.next_deadline(), serves_.next_deadline()}) {
    if (due && (!first || *due < *first)) first = due;
  }
  return first;
}

bool RegionExchange::is_idle() const {
  return pulls_.size() == 0 && serves_.serves() == 0 && steps_.size() == 0 && steps_.turns_in_line() == 0;
}

}  // namespace mobula::internal::transfer
