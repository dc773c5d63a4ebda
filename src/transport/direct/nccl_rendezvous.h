// Where the two processes of an NCCL channel meet: the one with the lower id makes the library's unique id,
// the other one asks for it over a connection of its own. Only who knows the endpoint's token is answered.
// What it says is not sealed; NCCL's own bytes are not either, so both are for trusted fabrics. For the
// loop's thread; answers come from the loop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "gpu/nccl_abi.h"
#include "transport/direct/blob.h"
#include "transport/direct/tensor_transport.h"
#include "transport/event_loop.h"

namespace mobula::internal {

class NcclRendezvous {
 public:
  using Got = std::function<void(Result<nccl_abi::UniqueId>)>;

  // Fails with what listen_at() fails with.
  static Result<std::unique_ptr<NcclRendezvous>> listen(EventLoop& loop, ProcessId self,
                                                        const std::string& address);

  const std::string& address() const { return address_; }
  const DirectToken& token() const { return token_; }

  // From now on the peer of this channel gets this id, also where it has asked before.
  void give(const ChannelKey& to, const nccl_abi::UniqueId& id);
  void take_back(const ChannelKey& to);
  // Until the deadline. unavailable where the peer is gone or refuses.
  void ask(const ChannelKey& channel, const std::string& address, const DirectToken& token,
           Time deadline, Got got);

 private:
  // One connection, either way.
  struct Line {
    Fd socket;
    Watch watch;
    Blob out;
    Blob in;
    Time deadline;
    ChannelKey channel;
    Got got;  // of one that asks
    bool connected = true;
    bool waits = false;  // of one that was asked: for give()
  };

  NcclRendezvous(EventLoop& loop, ProcessId self)
      : loop_(loop), self_(self), token_(DirectToken::random()), timer_(loop, [this] { look(); }) {}
  void accept();
  void watch(std::uint64_t number, Interest interest);
  void on_ready(std::uint64_t number);
  Result<bool> talk(Line& line);
  Result<bool> read_question(Line& line);
  void answer(Line& line);
  void end(std::uint64_t number, const Failure& why);
  void look();

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
