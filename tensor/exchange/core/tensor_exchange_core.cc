#include "tensor/exchange/core/tensor_exchange_core.h"

#include <algorithm>
#include <variant>

namespace mobula::internal::transfer {

TensorExchangeCore::TensorExchangeCore(ProcessId self, RegionOptions options)
    : context_{self, options},
      steps_(context_),
      serves_(context_, steps_),
      pulls_(context_, steps_, serves_) {}

void TensorExchangeCore::begin(Time now, Commands& out) {
  context_.now = std::max(context_.now, now);
  context_.out = &out;
}

void TensorExchangeCore::settle() {
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

void TensorExchangeCore::register_tensor(Time now, ObjectId object, std::uint64_t size_bytes,
                                         std::uint32_t device_ordinal, Commands& out) {
  begin(now, out);
  serves_.register_tensor(object, size_bytes, device_ordinal);
}

void TensorExchangeCore::unregister(Time now, ObjectId object, Commands& out) {
  begin(now, out);
  serves_.unregister(object);
  settle();
}

void TensorExchangeCore::evacuate(Time now, ObjectId object, Commands& out) {
  begin(now, out);
  serves_.evacuate(object);
  settle();
}

void TensorExchangeCore::stored(Time now, ObjectId object, const std::optional<Failure>& failure,
                                Commands& out) {
  begin(now, out);
  serves_.stored(object, failure);
  settle();
}

Result<std::vector<RegionPullId>> TensorExchangeCore::pull(Time now,
                                                           std::vector<TensorRequest> together,
                                                           bool arguments, Commands& out) {
  begin(now, out);
  auto pulls = pulls_.pull(std::move(together), arguments);
  settle();
  return pulls;
}

void TensorExchangeCore::cancel(Time now, RegionPullId pull, Commands& out) {
  begin(now, out);
  pulls_.cancel(pull);
  settle();
}

void TensorExchangeCore::located(Time now, ObjectId object, const RegionsLocated& answer,
                                 Commands& out) {
  begin(now, out);
  pulls_.located(object, answer);
  settle();
}

void TensorExchangeCore::reached(Time now, RegionPullId pull, ProcessId replica_holder,
                                 std::vector<DirectPath> paths, Commands& out) {
  begin(now, out);
  pulls_.reached(pull, replica_holder, std::move(paths));
  settle();
}

void TensorExchangeCore::claim_turn(Time now, std::uint32_t device_ordinal, std::uint64_t claim,
                                    Commands& out) {
  begin(now, out);
  steps_.claim(device_ordinal, claim);
  settle();
}

void TensorExchangeCore::return_turn(Time now, std::uint64_t claim, Commands& out) {
  begin(now, out);
  steps_.unclaim(claim);
  settle();
}

void TensorExchangeCore::on(Time now, ProcessId from, const RegionMessage& message, Commands& out) {
  begin(now, out);
  struct Dispatch {
    TensorExchangeCore& exchange;
    ProcessId from;
    void operator()(const PullTensorRequest& each) const { exchange.serves_.on(from, each); }
    void operator()(const PullTensorComplete& each) const { exchange.serves_.on(from, each); }
    void operator()(const PullTensorCancelled& each) const { exchange.serves_.on(from, each); }
    void operator()(const ReplicaEvicted& each) const { exchange.serves_.on(from, each); }
    void operator()(const PullTensorReply& each) const { exchange.pulls_.on(from, each); }
    void operator()(const PullTensorQueued& each) const { exchange.pulls_.on(from, each); }
    void operator()(const PullTensorRejected& each) const { exchange.pulls_.on(from, each); }
    void operator()(const CloseConnectionRequest& each) const { exchange.serves_.on(from, each); }
    void operator()(const CloseConnectionReply& each) const { exchange.pulls_.on(from, each); }
    void operator()(const TwoSidedStep& each) const { exchange.steps_.on(from, each); }
  };
  std::visit(Dispatch{*this, from}, message);
  settle();
}

void TensorExchangeCore::peer_gone(Time now, ProcessId peer, bool may_return, Commands& out) {
  begin(now, out);
  steps_.stop_all_with(peer);
  serves_.peer_gone(peer);
  pulls_.peer_gone(peer, may_return);
  settle();
}

void TensorExchangeCore::exported(Time now, OperationId operation,
                                  const Result<std::string>& ticket, Commands& out) {
  begin(now, out);
  serves_.exported(operation, ticket);
  settle();
}

void TensorExchangeCore::progressed(Time now, OperationId operation) {
  context_.now = std::max(context_.now, now);
  if (!pulls_.progressed(operation)) steps_.progressed(operation);
}

void TensorExchangeCore::ended(Time now, OperationId operation,
                               const std::optional<Failure>& failure, Commands& out) {
  begin(now, out);
  if (!pulls_.ended(operation, failure) && !steps_.ended(operation, failure))
    serves_.ended(operation);
  settle();
}

void TensorExchangeCore::tick(Time now, Commands& out) {
  begin(now, out);
  steps_.tick();
  settle();
  pulls_.tick();
  serves_.tick();
  settle();
}

std::optional<Time> TensorExchangeCore::next_deadline() const {
  std::optional<Time> first;
  for (const auto& due :
       {steps_.next_deadline(), pulls_.next_deadline(), serves_.next_deadline()}) {
    if (due && (!first || *due < *first)) first = due;
  }
  return first;
}

bool TensorExchangeCore::is_idle() const {
  return pulls_.size() == 0 && serves_.serves() == 0 && steps_.size() == 0 &&
         steps_.turns_in_line() == 0;
}

}  // namespace mobula::internal::transfer
