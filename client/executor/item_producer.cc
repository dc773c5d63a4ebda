#include "client/executor/item_producer.h"

#include <functional>
#include <iterator>
#include <string>
#include <utility>

#include "client/engine/callee/callee_half.h"
#include "client/engine/conversion.h"
#include "client/executor/call_runner.h"

namespace mobula::internal::executor {

// `needed` is false if the caller has the item of an earlier run.
detail::Done ItemProducer::wait_for_consumers(bool& needed) {
  auto& engine = runtime_.engine();
  const auto token = run_.token;
  auto lock = engine.lock();
  if (context_->cancelled.load()) return client::cancelled_error("co_yield");
  needed = engine.callee()->items().is_needed(token, next_);
  if (!needed) return std::nullopt;
  const auto has_space = [&] { return engine.callee()->items().has_space(token, next_); };
  if (has_space()) return std::nullopt;
  const client::ContextScope scope(context_);
  return runtime_.wait_for_consumers(lock, has_space);
}

detail::Done ItemProducer::accept(std::size_t index, const detail::Outgoing& value) {
  if (index != next_) {
    return client::make_error(detail::ErrorKind::invalid_request,
                              "give item " + std::to_string(index) + " of " + run_.call.form->name +
                                  ": item " + std::to_string(next_) + " is next");
  }
  bool needed = true;
  if (auto failed = wait_for_consumers(needed)) return failed;
  ++next_;
  if (!needed) return std::nullopt;
  const ObjectId object =
      value.size_bytes() > inline_value_limit ? item_id(run_.call.task, index) : ObjectId();
  client::HandedOver given;
  auto stored = runtime_.values().store_result(value, run_.call.form->tensors, object, run_.caller,
                                               run_.call.caller_node, given);
  if (!stored.ok()) return stored.error();
  // Refs in the item leave as those in a result do.
  CallFinished item;
  item.results.push_back(std::move(stored).take());
  client::redirect(item.results.front().contained, given, run_.caller, run_.call.caller_node);
  item.handovers = std::move(given.tasks);
  item.pinned = std::move(given.pinned);
  auto& engine = runtime_.engine();
  auto lock = engine.lock();
  settle_call(item, run_, runtime_, {}, lock);
  engine.step(ItemGiven{run_.token, index, std::move(item.results.front()),
                        std::move(item.handovers), std::move(item.pinned)});
  engine.attend(lock);
  return std::nullopt;
}

}  // namespace mobula::internal::executor
