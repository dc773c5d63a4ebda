// What a peer does with Mobula's own exchange of tensors: it makes elements on the GPU that others may have, and
// pulls those of others by the way that is named, or fails. The agents and the head are not in it: who may speak to
// whom is said by tickets that the stage signs for all.
#pragma once

#include <memory>

#include "base/result.h"
#include "gpu/check/stages.h"

namespace mobula::internal::gpu_check {

// For all peers of one stage: whose word on a ticket they believe, in hex.
Json fresh_cluster();

class ExchangeWork {
 public:
  // `cluster` of fresh_cluster(), `number` of this process, `host` by which it takes others for another machine,
  // `folder` for its sockets.
  static Result<std::unique_ptr<ExchangeWork>> start(const Json& order);
  ~ExchangeWork();
  ExchangeWork(const ExchangeWork&) = delete;
  ExchangeWork& operator=(const ExchangeWork&) = delete;

  // `object`, `bytes`: numbered elements on the GPU; answers with a ref to them.
  Result<Json> publish(const Json& order);
  // `ref`, `path`: waits for them, and looks at them.
  Result<Json> pull(const Json& order);
  // Nobody has it from here on.
  Result<Json> retire(const Json& order);

 private:
  class Impl;
  explicit ExchangeWork(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mobula::internal::gpu_check
