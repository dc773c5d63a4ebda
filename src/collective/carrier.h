// The bytes of one member of a group by a library that a transport plug-in brings (mobula/transport_plugin.h): one
// carrier for all other members, with a thread of its own that alone calls it. Messages may overtake each other, so
// each has a number; a sender has a window of them, which the receiver opens as it reads. Plain bytes: for members
// that trust the fabric. Who comes proves that it knows the group's key. Any thread.
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
#include "collective/membership.h"
#include "collective/wire.h"
#include "mobula/transport_plugin.h"
#include "transport/loop_thread.h"

namespace mobula::internal::collective {

class Carrier : public std::enable_shared_from_this<Carrier> {
 public:
  // `listen`: this machine's address for the others, without a port. `wake`: of who waits for any of them. Fails
  // with unavailable and the plug-in's reason.
  static Result<std::shared_ptr<Carrier>> open(const mobula_transport_plugin& plugin, const std::string& listen,
                                               const Membership& group, std::function<void()> wake);
  // Ends all links; waits for the library, which has ten seconds.
  ~Carrier();
  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;

  std::string_view name() const { return plugin_.name; }
  // Where those of lower rank connect to.
  const std::string& endpoint() const { return endpoint_; }
  void connect(std::uint32_t rank, std::string endpoint);
  // Whether that member and this one have met; why they never will.
  Result<bool> linked(std::uint32_t rank) const;
  std::unique_ptr<Wire> wire(std::uint32_t rank);

 private:
  class OneWire;
  struct Side {
    std::uint64_t link = 0;  // none yet
    bool linked = false;
    std::string broken;                      // why nothing comes or goes any more
    std::deque<std::vector<std::byte>> out;  // for the thread to send
    std::uint64_t sent = 0;                  // messages
    std::uint64_t allowed = 0;               // of them, by the receiver
    std::map<std::uint64_t, std::vector<std::byte>> early;
    std::deque<std::vector<std::byte>> in;
    std::size_t read = 0;  // of the first
    std::uint64_t arrived = 0;
  };

  Carrier(const mobula_transport_plugin& plugin, const Membership& group, std::function<void()> wake)
      : plugin_(plugin), group_(group.id), rank_(group.rank), key_(group.key), wake_(std::move(wake)), sides_(group.size()) {}
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

  // The thread's.
  mobula_carrier_host host_{};
  mobula_carrier* carrier_ = nullptr;
  std::string threw_;
  Watch watch_;
  std::unique_ptr<Timer> timer_;
  std::unique_ptr<LoopThread> thread_;
};

}  // namespace mobula::internal::collective
