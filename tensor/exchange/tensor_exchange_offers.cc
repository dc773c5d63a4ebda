// Local tensors that other processes may pull: registration, offers, and copies in the store.
#include <utility>

#include "tensor/exchange/core/tensor_chunks.h"
#include "tensor/exchange/tensor_exchange.h"

namespace mobula::internal::exchange {

void TensorExchange::register_tensor(ObjectId object, SourceRegion elements,
                                     std::shared_ptr<const void> owner) {
  const MutexLock lock(mutex_);
  fresh_[object] = {elements, std::move(owner)};
}

void TensorExchange::register_again(ObjectId object) {
  post([this, object] {
    const auto at = registered_.find(object);
    if (at == registered_.end() || !at->second.let_go || at->second.retired) return;
    at->second.let_go = false;
    register_in_core(object, at->second);
  });
}

std::shared_ptr<const void> TensorExchange::unregister(ObjectId object) {
  {
    const MutexLock lock(mutex_);
    if (auto fresh = fresh_.extract(object)) return std::move(fresh.mapped().owner);
  }
  post([this, object] {
    const auto at = registered_.find(object);
    if (at == registered_.end()) return;
    at->second.retired = true;
    if (at->second.let_go) registered_.erase(at);
    step([&](Time now, auto& out) { core_.unregister(now, object, out); });
  });
  return nullptr;
}

void TensorExchange::evacuate() {
  post([this] {
    std::vector<ObjectId> all;
    for (const auto& [object, each] : registered_) all.push_back(object);
    for (const ObjectId object : all) {
      step([&](Time now, auto& out) { core_.evacuate(now, object, out); });
    }
  });
}

void TensorExchange::stored(ObjectId object, std::optional<Failure> failure) {
  post([this, object, failure = std::move(failure)] {
    step([&](Time now, auto& out) { core_.stored(now, object, failure, out); });
  });
}

void TensorExchange::carry_out(const transfer::OfferTensor& command) {
  open_plugin_of(command.path);
  const auto operation = command.operation;
  const auto report = [this, operation](const Result<std::string>& ticket) {
    if (!ticket) operations_.erase(operation);
    step([&](Time now, auto& out) { core_.exported(now, operation, ticket, out); });
  };
  const auto at = registered_.find(command.object);
  const auto memory = at == registered_.end() ? nullptr : at->second.memory.lock();
  if (at == registered_.end() || (at->second.copy != 0 && !memory)) {
    return report(failure(ErrorCode::not_found, "the tensor is not here any more"));
  }
  SourceRegion elements = at->second.elements;
  if (command.part != 0) {
    const auto span =
        transfer::span_of(elements.bytes.size(), options_.regions.chunk_bytes, command.part);
    elements.bytes = elements.bytes.subspan(span.offset, span.size_bytes);
    elements.file.reset();  // copied, not mapped
  }
  auto transfer =
      paths_->offer({command.path, command.peer, command.peer_ordinal}, elements, report);
  if (!transfer) return report(transfer.error());
  operations_[operation] = {command.path, *transfer, 0, {}, memory};
}

void TensorExchange::carry_out(const transfer::WithdrawOffer& command) {
  const auto at = operations_.find(command.operation);
  const auto ended = [this, operation = command.operation] {
    operations_.erase(operation);
    step([&](Time now, auto& out) { core_.ended(now, operation, std::nullopt, out); });
  };
  if (at == operations_.end()) return ended();
  paths_->release(at->second.transfer, ended);
}

// Elements that readers mapped in place stay until the last reference ends, even if the store has a
// copy.
void TensorExchange::carry_out(const transfer::FreeRegions& command) {
  const auto at = registered_.find(command.object);
  if (at == registered_.end()) return;
  at->second.let_go = true;
  if (at->second.retired) registered_.erase(at);
}

void TensorExchange::carry_out(const transfer::StoreRegions& command) {
  const RegisteredTensor& what = registered_.at(command.object);
  callbacks_.store(command.object, what.elements, what.owner);
}

}  // namespace mobula::internal::exchange
