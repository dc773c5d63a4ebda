// What shm and cuda_ipc have in common: the holder's memory has descriptors, receivers map it, and copy from
// there. Which memory, and who may reach it, is for them. See tensor_transport.h for what is promised.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "transport/direct/arena.h"
#include "transport/direct/copy_threads.h"
#include "transport/direct/mapped_medium.h"
#include "transport/direct/shm_holder.h"
#include "transport/direct/shm_receiver.h"
#include "transport/direct/tensor_transport.h"

namespace mobula::internal {

// What of this machine and process decides with whom it shares memory.
Result<ShmPlace> place_of_this_process(bool read_processes);

class MappedTransport : public TensorTransport {
 public:
  ~MappedTransport() override;

  const TransportCaps& caps() const override { return caps_; }
  const Blob& endpoint() const override { return endpoint_; }
  void open(const ChannelKey& key, const Peer& peer, Time deadline, Opened opened) override;
  void close(const ChannelKey& key) override;
  void offer(Offer offer, Offered offered) override;
  void release(TransferId transfer, Quiet quiet) override;
  void pull(Pull pull, Ended ended) override;
  void map(TransferId transfer, const ChannelKey& from, std::span<const std::byte> ticket,
           Mapped mapped) override;
  void cancel(TransferId transfer, Quiet quiet) override;
  void peer_down(ProcessId peer, Quiet quiet) override;
  void shutdown(Time deadline, std::function<void(std::vector<TransferId>)> done) override;
  TransportStats stats() const override;

 protected:
  MappedTransport(EventLoop& loop, ShmEndpoint self, DirectLimits limits);
  // With what it copies by, which ends before all else; arena: see ShmHolder.
  Result<void> start(MappedMedium medium, std::unique_ptr<Copies> copies, Arena* arena,
                     std::uint64_t max_mapped_bytes);

  // A file that is offered no more is to be let go of by all who have mapped it.
  void forget(FileKey file) { holder_->forget(file); }
  // The same, for whoever gives memory up on any thread, as long as there is a transport to tell.
  std::function<void(FileKey)> forgets();

  // Whether the peer is of this machine and user, and what its endpoint says is of this kind.
  Result<void> check_same_place(const Peer& peer) const;

  TransportCaps caps_;

 private:
  struct Gone;
  void finish_shutdown();

  EventLoop& loop_;
  const ShmEndpoint self_;
  const DirectLimits limits_;
  const Blob endpoint_;
  MappedMedium medium_;
  TransportStats stats_;
  Later later_;
  Timer shutdown_timer_;
  std::function<void(std::vector<TransferId>)> shut_down_;
  std::shared_ptr<Gone> gone_;  // shared with who gives memory up
  // The copies end first, with what they read and write still there.
  std::unique_ptr<ShmHolder> holder_;
  std::unique_ptr<ShmReceiver> receiver_;
  std::unique_ptr<Copies> copies_;
};

}  // namespace mobula::internal
