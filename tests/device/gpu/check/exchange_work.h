// Exchange of tensors in a peer: it registers elements on the GPU and pulls those of others by a
// named path, without fallback.
// Thread: owner. Not: agents and head; the stage signs tickets for all peers instead.
#pragma once

#include <memory>

#include "base/result.h"
#include "device/gpu/check/stages/stages.h"

namespace mobula::internal::gpu_check {

// For all peers of one stage: the key that verifies their tickets, in hex.
Json fresh_cluster();

class ExchangeWork {
 public:
  // `cluster` from fresh_cluster(), `number` of this process, `host` that identifies its machine to
  // others, `directory` for its sockets.
  static Result<std::unique_ptr<ExchangeWork>> start(const Json& order);
  ~ExchangeWork();
  ExchangeWork(const ExchangeWork&) = delete;
  ExchangeWork& operator=(const ExchangeWork&) = delete;

  // `object`, `bytes`: registers numbered elements on the GPU and returns a ref to them.
  Result<Json> register_tensor(const Json& order);
  // `ref`, `path`: pulls the elements and compares them.
  Result<Json> pull(const Json& order);
  // Ends the registration.
  Result<Json> unregister(const Json& order);

 private:
  class Impl;
  explicit ExchangeWork(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mobula::internal::gpu_check
