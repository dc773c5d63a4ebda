// Moves the bytes of one group member through a transport plugin (`mobula/transport_plugin.h`): one
// carrier for all other members, called only by its own thread. Messages can arrive out of order,
// so they are numbered; the receiver grants a window to each sender. Bytes are not encrypted, so
// members must trust the fabric.
// Thread: any.
// Errors: a peer that cannot prove knowledge of the group's key is ignored.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "base/time.h"
#include "mobula/transport_plugin.h"
#include "tensor/collective/byte_stream.h"
#include "tensor/collective/membership.h"
#include "transport/loop/loop_thread.h"

namespace mobula::internal::collective {

class Carrier : public std::enable_shared_from_this<Carrier> {
 public:
  // `listen`: address of this machine for the others, without a port. `wake` wakes the thread that
  // waits for any peer. Fails with unavailable and the reason of the plugin.
  static Result<std::shared_ptr<Carrier>> open(const mobula_transport_plugin& plugin,
                                               const std::string& listen, const Membership& group,
                                               std::function<void()> wake);
  // Closes all links; waits up to ten seconds for the library.
  ~Carrier();
  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;

  std::string_view name() const { return plugin_.name; }
  // Endpoint to which members of lower rank connect.
  const std::string& endpoint() const { return endpoint_; }
  void connect(std::uint32_t rank, std::string endpoint);
  // Returns whether the link to this member is established, or the error that prevents it.
  Result<bool> linked(std::uint32_t rank) const;
  std::unique_ptr<ByteStream> wire(std::uint32_t rank);

 private:
  class OneWire;
  struct Side {
    std::uint64_t link = 0;  // 0: no link yet
    bool linked = false;
    std::string broken;                      // reason of a broken link; otherwise empty
    std::deque<std::vector<std::byte>> out;  // messages for the thread to send
    std::uint64_t sent = 0;                  // messages sent
    std::uint64_t allowed = 0;               // messages that the receiver allows in total
    std::map<std::uint64_t, std::vector<std::byte>> early;
    std::deque<std::vector<std::byte>> in;
    std::size_t read = 0;  // bytes read of `in.front()`
    std::uint64_t arrived = 0;
  };

  Carrier(const mobula_transport_plugin& plugin, const Membership& group,
          std::function<void()> wake)
      : plugin_(plugin),
        group_(group.id),
        rank_(group.rank),
        key_(group.key),
        wake_(std::move(wake)),
        sides_(group.size()) {}
  Result<void> start(const std::string& listen);
  void close();
  template <class Call>
  void guarded(const Call& call);
  void poll();
  void flush();
  void post();
  void on_message(std::uint64_t link, std::span<const std::byte> bytes);
  void on_broken(std::uint64_t link, const char* why);
  void greeted(std::uint64_t link, std::span<const std::byte> bytes) MOBULA_REQUIRES(mutex_);
  void break_side(Side& side, const std::string& why);
  std::vector<std::byte> greeting(std::byte kind, std::uint32_t from, std::uint32_t to) const;
  Side* side_of(std::uint64_t link) MOBULA_REQUIRES(mutex_);

  const mobula_transport_plugin& plugin_;
  const GroupId group_;
  const std::uint32_t rank_;
  const SealKey key_;
  const std::function<void()> wake_;
  std::string endpoint_;

  mutable Mutex mutex_;
  std::vector<Side> sides_ MOBULA_GUARDED_BY(mutex_);  // by rank
  bool notified_ MOBULA_GUARDED_BY(mutex_) = false;

  // State of the carrier's thread:
  mobula_carrier_host host_{};
  mobula_carrier* carrier_ = nullptr;
  std::string threw_;
  Watch watch_;
  std::unique_ptr<Timer> timer_;
  std::unique_ptr<LoopThread> thread_;
};

}  // namespace mobula::internal::collective
