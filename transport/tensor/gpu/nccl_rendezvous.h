// Exchange of the unique id of an NCCL channel. The process with the lower id creates it; the other
// process requests it over a separate connection. Only a peer with the token of the endpoint gets a
// reply.
// Thread: the event loop; callbacks come from the loop.
// Not: encryption. NCCL does not encrypt either, so both are for trusted fabrics.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "device/gpu/nccl_abi.h"
#include "transport/loop/event_loop.h"
#include "transport/tensor/blob.h"
#include "transport/tensor/tensor_transport.h"

namespace mobula::internal {

class NcclRendezvous {
 public:
  using Got = std::function<void(Result<nccl_abi::UniqueId>)>;

  // Fails with an error of listen_at().
  static Result<std::unique_ptr<NcclRendezvous>> listen(EventLoop& loop, ProcessId self,
                                                        const std::string& address);

  const std::string& address() const { return address_; }
  const DirectToken& token() const { return token_; }

  // From now on, the peer of this channel receives this id, also for an earlier request.
  void give(const ChannelKey& to, const nccl_abi::UniqueId& id);
  void take_back(const ChannelKey& to);
  // Requests the id until the deadline. Errors: unavailable if the peer ended or rejects the
  // request.
  void request(const ChannelKey& channel, const std::string& address, const DirectToken& token,
               Time deadline, Got got);

 private:
  // One connection, in either direction.
  struct Line {
    Fd socket;
    Watch watch;
    Blob out;
    Blob in;
    Time deadline;
    ChannelKey channel;
    Got got;  // for an outgoing request
    bool connected = true;
    bool waits = false;  // for an incoming request: waits for give()
  };

  NcclRendezvous(EventLoop& loop, ProcessId self)
      : loop_(loop),
        self_(self),
        token_(DirectToken::random()),
        timer_(loop, [this] { check(); }) {}
  void accept();
  void watch(std::uint64_t number, Interest interest);
  void on_ready(std::uint64_t number);
  Result<bool> talk(Line& line);
  Result<bool> read_question(Line& line);
  void answer(Line& line);
  void end(std::uint64_t number, const Failure& why);
  void check();

  EventLoop& loop_;
  const ProcessId self_;
  const DirectToken token_;
  std::string address_;
  Fd listener_;
  Watch listening_;
  std::map<std::uint64_t, Line> lines_;
  std::uint64_t next_ = 1;
  std::map<ChannelKey, nccl_abi::UniqueId> ids_;
  Timer timer_;
};

}  // namespace mobula::internal
