// Base of shm and cuda_ipc: the memory of the holder has descriptors; receivers map it and copy
// from it.
// Thread: the event loop. See tensor_transport.h for the guarantees. Not: kind and reach of the
// memory (the derived class).
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "transport/tensor/arena.h"
#include "transport/tensor/copy_threads.h"
#include "transport/tensor/shm/mapped_medium.h"
#include "transport/tensor/shm/shm_holder.h"
#include "transport/tensor/shm/shm_receiver.h"
#include "transport/tensor/tensor_transport.h"

namespace mobula::internal {

// Properties of this machine and process that decide which processes it can share memory with.
Result<ShmDomain> domain_of_this_process(bool read_processes);

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
  // Takes the copier, which is destroyed before all else. For `arena` see ShmHolder.
  Result<void> start(MappedMedium medium, std::unique_ptr<Copies> copies, Arena* arena,
                     std::uint64_t max_mapped_bytes);

  // Requests that all receivers unmap a file that is not offered any more.
  void forget(FileKey file) { holder_->forget(file); }
  // The same as a function for any thread. It has no effect after the transport is destroyed.
  std::function<void(FileKey)> forgets();

  // Checks that the peer is on this machine, has this user, and has an endpoint of this kind.
  Result<void> check_same_domain(const Peer& peer) const;

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
  DeferredCalls later_;
  Timer shutdown_timer_;
  std::function<void(std::vector<TransferId>)> shut_down_;
  std::shared_ptr<Gone> gone_;  // shared with components that free memory
  // Destruction order: the copies end first, while the memory that they use exists.
  std::unique_ptr<ShmHolder> holder_;
  std::unique_ptr<ShmReceiver> receiver_;
  std::unique_ptr<Copies> copies_;
};

}  // namespace mobula::internal
