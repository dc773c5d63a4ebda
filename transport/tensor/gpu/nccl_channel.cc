#include "transport/tensor/gpu/nccl_channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace mobula::internal {
namespace {

// Larger groups have been observed to hang.
constexpr std::size_t most_in_group = 256;

const char* name_of(NcclCall::Kind kind) {
  switch (kind) {
    case NcclCall::Kind::send: return "ncclSend";
    case NcclCall::Kind::receive: return "ncclRecv";
    case NcclCall::Kind::broadcast: return "ncclBroadcast";
    case NcclCall::Kind::all_reduce: return "ncclAllReduce";
    case NcclCall::Kind::reduce: return "ncclReduce";
    case NcclCall::Kind::all_gather: return "ncclAllGather";
    case NcclCall::Kind::reduce_scatter: return "ncclReduceScatter";
  }
  return "a call";
}

}  // namespace

// A thread of NCCL opens the communicator with calls that CUDA forbids while any thread captures a
// graph in the default mode (cudaStreamCaptureModeGlobal). No call reports such a capture without
// breaking it, so it cannot be avoided in advance.
Failure NcclChannel::opening_error(nccl_abi::Status status) const {
  Failure why = terms_.nccl->error("opening a communicator", status);
  if (status == nccl_abi::unhandled_cuda_error) {
    why.text +=
        "; if this process captures a CUDA graph, capture it in thread-local mode, or move a "
        "tensor to this peer before the capture";
  }
  return why;
}

NcclChannel::NcclChannel(Terms terms) : terms_(std::move(terms)) {}

NcclChannel::~NcclChannel() {
  // A stream with a running kernel cannot be destroyed without waiting for the kernel.
  if (state_ == State::lost && stream_) new GpuStream(std::move(*stream_));
}

void NcclChannel::begin() {
  const auto refuse = [this](const Failure& why) {
    state_ = State::closed;
    terms_.opened(why);
  };
  auto stream = GpuStream::create(terms_.context);
  if (!stream) return refuse(stream.error());
  auto event = GpuEvent::create(terms_.context);
  if (!event) return refuse(event.error());
  stream_.emplace(std::move(stream).value());
  event_.emplace(std::move(event).value());
  nccl_abi::Config config;
  config.blocking = 0;
  config.max_ctas = 1;
  config.name = "mobula";
  const GpuContext::Current current(*terms_.context);
  if (!current.made()) return refuse(current.made().error());
  const auto status =
      terms_.nccl->call().init_rank(&communicator_, terms_.ranks, terms_.id, terms_.rank, &config);
  if (status != nccl_abi::success && status != nccl_abi::in_progress) {
    communicator_ = nullptr;
    return refuse(terms_.nccl->error("ncclCommInitRankConfig", status));
  }
  state_ = State::opening;
}

void NcclChannel::move(NcclMove move) {
  if (state_ != State::open) {
    return move.ended(failure(ErrorCode::unavailable,
                              why_ ? why_->text : "nccl: the channel is not open, or busy"));
  }
  if (move.calls.empty()) return move.ended({});
  move_.emplace(std::move(move));
  issued_ = 0;
  since_ = monotonic_now();
  if (auto issued = issue(); !issued) fail(issued.error());
}

Result<void> NcclChannel::issue() {
  const GpuContext::Current current(*terms_.context);
  if (!current.made()) return current.made();
  const NcclFunctions& call = terms_.nccl->call();
  state_ = State::launching;
  if (const auto status = call.group_start(); status != nccl_abi::success) {
    return terms_.nccl->error("ncclGroupStart", status);
  }
  Result<void> added;
  const std::size_t end = std::min(move_->calls.size(), issued_ + most_in_group);
  for (; issued_ < end && added; ++issued_) {
    const NcclCall& each = move_->calls[issued_];
    const auto status = add(each);
    if (status != nccl_abi::success && status != nccl_abi::in_progress) {
      added = terms_.nccl->error(name_of(each.kind), status);
    }
  }
  const auto status = call.group_end();
  if (!added) return added;
  if (status == nccl_abi::success || status == nccl_abi::in_progress) return {};
  return terms_.nccl->error("ncclGroupEnd", status);
}

nccl_abi::Status NcclChannel::add(const NcclCall& each) const {
  const NcclFunctions& call = terms_.nccl->call();
  const auto stream = stream_->get();
  switch (each.kind) {
    case NcclCall::Kind::send:
      return call.send(each.from, each.count, each.type, each.peer, communicator_, stream);
    case NcclCall::Kind::receive:
      return call.receive(each.to, each.count, each.type, each.peer, communicator_, stream);
    case NcclCall::Kind::broadcast:
      return call.broadcast(each.from, each.to, each.count, each.type, each.peer, communicator_,
                            stream);
    case NcclCall::Kind::all_reduce:
      return call.all_reduce(each.from, each.to, each.count, each.type, each.reduction,
                             communicator_, stream);
    case NcclCall::Kind::reduce:
      return call.reduce(each.from, each.to, each.count, each.type, each.reduction, each.peer,
                         communicator_, stream);
    case NcclCall::Kind::all_gather:
      return call.all_gather(each.from, each.to, each.count, each.type, communicator_, stream);
    case NcclCall::Kind::reduce_scatter:
      return call.reduce_scatter(each.from, each.to, each.count, each.type, each.reduction,
                                 communicator_, stream);
  }
  return nccl_abi::invalid_argument;
}

nccl_abi::Status NcclChannel::state_of_library() const {
  nccl_abi::Status state = nccl_abi::internal_error;
  const auto state_read = terms_.nccl->call().async_error(communicator_, &state);
  return state_read == nccl_abi::success ? state : state_read;
}

void NcclChannel::finish(const Result<void>& result) {
  if (!move_) return;
  const auto ended = std::move(move_->ended);
  move_.reset();
  ended(result);
}

bool NcclChannel::step() {
  const GpuContext::Current current(*terms_.context);
  switch (state_) {
    case State::fresh:
    case State::open:
    case State::closed:
    case State::lost: return true;
    case State::opening: return step_opening();
    case State::launching: step_launching(); break;
    case State::running:
      if (step_running()) return true;
      break;
    case State::revoking: return step_revoking();
    case State::reaping: return step_reaping();
  }
  if (move_ && monotonic_now() - since_ > move_->limit) {
    fail(failure(ErrorCode::timed_out,
                 "nccl: no bytes arrived in time although all peers have begun (device_busy?)"));
  }
  return false;
}

bool NcclChannel::step_opening() {
  const auto status = state_of_library();
  if (status == nccl_abi::success) {
    state_ = State::open;
    terms_.opened({});
    return true;
  }
  if (status != nccl_abi::in_progress) {
    fail(opening_error(status));
  } else if (monotonic_now() > terms_.deadline) {
    fail(failure(ErrorCode::timed_out, "nccl: a peer did not begin in time"));
  }
  return false;
}

void NcclChannel::step_launching() {
  const auto status = state_of_library();
  if (status == nccl_abi::success) {
    // The stream may take further work only from now on.
    state_ = State::running;
    if (auto marked = event_->record(stream_->get()); !marked) fail(marked.error());
  } else if (status != nccl_abi::in_progress) {
    fail(terms_.nccl->error("a group", status));
  }
}

bool NcclChannel::step_running() {
  const auto status = state_of_library();
  const auto over = event_->over();
  if (status != nccl_abi::success) {
    fail(terms_.nccl->error(name_of(move_->calls.front().kind), status));
  } else if (!over) {
    fail(over.error());
  } else if (*over && issued_ < move_->calls.size()) {
    if (auto issued = issue(); !issued) fail(issued.error());
  } else if (*over) {
    state_ = State::open;
    finish({});
    return true;
  }
  return false;
}

bool NcclChannel::step_revoking() {
  const auto status = state_of_library();
  const auto over = event_->over();
  if (status == nccl_abi::success && (!over || *over)) {
    be_quiet();
    begin_reaping(false);
  } else if ((status != nccl_abi::success && status != nccl_abi::in_progress) ||
             monotonic_now() - since_ > terms_.shutdown_timeout) {
    begin_reaping(true);
  }
  return false;
}

bool NcclChannel::step_reaping() {
  if (*reaped_) {
    communicator_ = nullptr;
    state_ = State::closed;
    be_quiet();
    return true;
  }
  if (monotonic_now() - since_ <= terms_.shutdown_timeout) return false;
  be_lost("its communicator cannot be ended");
  return true;
}

void NcclChannel::fail(const Failure& why) { take_down(why, nullptr); }

void NcclChannel::take_down(const Failure& why, std::function<void()> quiet) {
  if (quiet) quiet_.push_back(std::move(quiet));
  if (!why_) why_ = why;
  const State was = state_;
  if (was == State::fresh || was == State::closed) {
    state_ = State::closed;
    return be_quiet();
  }
  if (was == State::revoking || was == State::reaping || was == State::lost) return;
  if (was == State::opening) terms_.opened(*why_);
  since_ = monotonic_now();
  const bool in_progress = was == State::opening || was == State::launching;
  const auto revoke = terms_.nccl->call().revoke;
  if (in_progress || revoke == nullptr) return begin_reaping(true);
  const GpuContext::Current current(*terms_.context);
  const auto status = revoke(communicator_, 0);
  if (status != nccl_abi::success && status != nccl_abi::in_progress) return begin_reaping(true);
  state_ = State::revoking;
}

// Destroys or aborts on a separate thread, which may block forever.
void NcclChannel::begin_reaping(bool aborts) {
  state_ = State::reaping;
  since_ = monotonic_now();
  reaped_ = std::make_shared<std::atomic<bool>>(false);
  // Not joined: if it hangs, the process must be replaced, and nothing else depends on this thread.
  std::thread([nccl = terms_.nccl, context = terms_.context, communicator = communicator_, aborts,
               reaped = reaped_] {
    {
      const GpuContext::Current current(*context);
      (void)(aborts ? nccl->call().abort(communicator) : nccl->call().destroy(communicator));
    }
    *reaped = true;
  }).detach();
}

void NcclChannel::be_quiet() {
  finish(why_ ? Result<void>(*why_)
              : Result<void>(failure(ErrorCode::cancelled, "nccl: the channel was closed")));
  for (auto& each : std::exchange(quiet_, {})) each();
}

void NcclChannel::be_lost(const char* at) {
  state_ = State::lost;
  terms_.lost(fmt::format("nccl: {} after {} s ({}); this process has to be replaced", at,
                          terms_.shutdown_timeout / 1s, why_ ? why_->text : "closed"));
}

}  // namespace mobula::internal
