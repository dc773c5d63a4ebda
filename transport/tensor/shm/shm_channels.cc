#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "transport/tensor/shm/shm_receiver.h"

namespace mobula::internal {

void ShmReceiver::open(const ChannelKey& key, const Peer& peer, Time deadline,
                       TensorTransport::Opened opened) {
  const auto refuse = [&](const Failure& why) {
    shared_.later.call([opened = std::move(opened), why] { opened(why); });
  };
  const auto holder = ShmEndpoint::decode(peer.endpoint, shared_.medium.kind);
  if (!holder) return refuse(holder.error());
  if (holder->process != key.peer || peer.process != key.peer) {
    return refuse(failure(ErrorCode::invalid_argument, "the endpoint of another process"));
  }
  if (const auto at = channels_.find(key); at != channels_.end()) {
    if (!at->second->welcome) {
      at->second->opening.push_back(std::move(opened));
      return;
    }
    shared_.later.call([opened = std::move(opened)] { opened({}); });
    return;
  }
  if (auto replaced = drop_lower_epochs(key); !replaced) return refuse(replaced.error());
  auto channel = std::make_shared<Channel>();
  channel->key = key;
  channel->since = monotonic_now();
  channel->deadline = deadline;
  if (auto connected = connect(*channel, *holder); !connected) return refuse(connected.error());
  channel->opening.push_back(std::move(opened));
  auto link = LocalLink::open(
      shared_.loop, Fd(std::move(channel->alive)),
      {.on_frame =
           [this, weak = std::weak_ptr(channel)](LocalFrame frame) {
             if (auto to = weak.lock()) on_frame(to, std::move(frame));
           },
       .on_closed =
           [this, weak = std::weak_ptr(channel)](const Failure& why) {
             if (const auto of = weak.lock()) {
               drop_channel(of, why, why.code == ErrorCode::unavailable);
             }
           }},
      {.limits = {.max_bytes = shm_message_bytes, .max_fds = 1}, .max_queued_bytes = 4u << 20});
  if (!link) {
    auto failed = std::move(channel->opening.front());
    shared_.later.call([failed = std::move(failed), why = link.error()] { failed(why); });
    return;
  }
  channel->link = std::move(link).value();
  (void)channel->link->send(
      encode(ShmHello{shared_.medium.kind, shared_.self.process, key.peer, key.epoch}));
  channels_.emplace(key, std::move(channel));
  if (!check_timer_.armed()) check_timer_.arm(monotonic_now() + receiver_check_interval);
}

// Drops the ended channels of the peer. Errors: already_exists if its epoch is over,
// resource_exhausted at the limit of channels.
Result<void> ShmReceiver::drop_lower_epochs(const ChannelKey& key) {
  const auto higher = channels_.upper_bound(key);
  if (higher != channels_.end() && higher->first.peer == key.peer) {
    return failure(ErrorCode::already_exists,
                   fmt::format("a channel of epoch {} is there", higher->first.epoch));
  }
  if (channels_.size() >= shared_.limits.max_channels) {
    return failure(ErrorCode::resource_exhausted,
                   fmt::format("{} channels are open, which is the limit", channels_.size()));
  }
  while (true) {
    const auto lower = channels_.lower_bound({key.peer, 0});
    if (lower == channels_.end() || lower->first.peer != key.peer) return {};
    drop_channel(ChannelPtr(lower->second),
                 failure(ErrorCode::cancelled, "a channel of a higher epoch was opened"), false);
  }
}

// Stores the socket in `channel.alive`, for the LocalLink.
Result<void> ShmReceiver::connect(Channel& channel, const ShmEndpoint& holder) {
  auto socket = connect_local(holder.socket);
  if (!socket) return socket.error();
  const auto who = credentials_of(*socket);
  if (!who) return who.error();
  if (who->uid != ::geteuid()) {
    return failure(ErrorCode::permission_denied,
                   fmt::format("{} belongs to another user", holder.socket));
  }
  channel.process = who->pid;
  channel.alive = std::move(socket).value();
  return {};
}

void ShmReceiver::on_frame(const ChannelPtr& channel, LocalFrame frame) {
  const auto message = decode_shm_message(frame.bytes);
  Result<void> done;
  if (!message) {
    done = message.error();
  } else if (const auto* welcome = std::get_if<ShmWelcome>(&*message)) {
    done = on_welcome(*channel, *welcome);
  } else if (const auto* file = std::get_if<ShmFile>(&*message)) {
    done = on_file(channel, *file, frame);
  } else if (const auto* refusal = std::get_if<ShmRefusal>(&*message)) {
    if (refusal->number) {
      on_refusal(*channel, *refusal);
    } else {
      done = refusal->why;
    }
  } else if (const auto* forget = std::get_if<ShmForget>(&*message)) {
    forget_file(*channel, forget->number);
  } else {
    done = failure(ErrorCode::corrupt, "a frame that only receivers send came from a holder");
  }
  if (!done) drop_channel(channel, done.error(), done.error().code == ErrorCode::unavailable);
}

Result<void> ShmReceiver::on_welcome(Channel& channel, const ShmWelcome& welcome) {
  if (channel.welcome) return failure(ErrorCode::corrupt, "a holder welcomed twice");
  channel.welcome = true;
  channel.ticket_key = welcome.ticket_key;
  try_reading(channel, welcome);
  ++shared_.stats.opened;
  shared_.stats.open_ns += static_cast<std::uint64_t>((monotonic_now() - channel.since).count());
  for (auto& opened : std::exchange(channel.opening, {})) {
    shared_.later.call([opened = std::move(opened)] { opened({}); });
  }
  for (auto at = rows_.begin(); at != rows_.end();) {
    const auto each = at++;
    if (each->second.channel.get() == &channel) gather(each);
  }
  return {};
}

// The process named by the kernel is the holder if its memory has the announced proof.
void ShmReceiver::try_reading(Channel& channel, const ShmWelcome& welcome) {
  if (!shared_.self.domain.reads_processes || channel.process <= 0) return;
  channel.alive = Fd(static_cast<int>(::syscall(SYS_pidfd_open, channel.process, 0)));
  if (!channel.alive) return;
  Hash128 seen;
  Copy copy;
  copy.process = channel.process;
  copy.pieces.push_back({reinterpret_cast<std::byte*>(&seen),
                         reinterpret_cast<const std::byte*>(welcome.proof_at), sizeof seen});
  channel.reads = copy_now(copy) && seen == welcome.proof;
}

Result<void> ShmReceiver::on_file(const ChannelPtr& channel, const ShmFile& file,
                                  LocalFrame& frame) {
  const auto at = channel->files.find(file.number);
  if (frame.fds.size() != 1 || at == channel->files.end() || at->second.mapping ||
      std::exchange(at->second.coming, true)) {
    return failure(ErrorCode::corrupt, "holder sent a file that was not requested");
  }
  if (file.number == ledger_number) {
    on_mapped(*channel, file, ReadMapping::map(frame.fds.front().get(), file.size));
    return {};
  }
  shared_.medium.map(std::move(frame.fds.front()), file.size,
                     [this, weak = std::weak_ptr(channel),
                      file](const Result<std::shared_ptr<const ReadMapping>>& mapping) {
                       if (const auto to = weak.lock()) on_mapped(*to, file, mapping);
                     });
  return {};
}

void ShmReceiver::on_mapped(Channel& channel, const ShmFile& file,
                            const Result<std::shared_ptr<const ReadMapping>>& mapping) {
  const auto at = channel.files.find(file.number);
  if (at == channel.files.end()) return;  // forgotten in the meantime, or the channel has ended
  at->second.coming = false;
  if (!mapping) return on_refusal(channel, {file.number, mapping.error()});
  at->second.mapping = *mapping;
  mapped_bytes_ += file.size;
  files_there(channel, file.number);
  evict();
}

void ShmReceiver::forget_file(Channel& channel, std::uint64_t number) {
  const auto at = channel.files.find(number);
  if (at == channel.files.end()) return;
  if (at->second.mapping) {
    mapped_bytes_ -= at->second.mapping->bytes().size();
    channel.files.erase(at);
  } else if (at->second.coming) {
    on_refusal(channel, {number, failure(ErrorCode::not_found, "the holder reclaims its memory")});
  }
}

void ShmReceiver::on_refusal(Channel& channel, const ShmRefusal& refusal) {
  const auto at = channel.files.find(*refusal.number);
  if (at == channel.files.end() || at->second.mapping) return;
  channel.files.erase(at);
  for (auto row = rows_.begin(); row != rows_.end();) {
    const auto each = row++;
    if (each->second.channel.get() != &channel || each->second.lacks == 0) continue;
    const auto wants = each->second.files.find(*refusal.number);
    if (wants != each->second.files.end() && !wants->second) {
      end(each, refusal.why, monotonic_now());
    }
  }
}

void ShmReceiver::close(const ChannelKey& key) {
  const auto at = channels_.find(key);
  if (at == channels_.end()) return;
  const ChannelPtr channel = at->second;
  for (auto row = rows_.begin(); row != rows_.end();) {
    const auto each = row++;
    if (each->second.channel == channel) {
      stop(each, failure(ErrorCode::cancelled, "the channel was closed"), false);
    }
  }
  drop_channel(channel, failure(ErrorCode::cancelled, "the channel was closed"), false);
}

// Running copies continue, because mappings outlive the holder.
void ShmReceiver::drop_channel(const ChannelPtr& channel, const Failure& why, bool lost) {
  const Failure reason = why;
  const auto at = channels_.find(channel->key);
  if (at != channels_.end() && at->second == channel) channels_.erase(at);
  channel->link.reset();
  for (auto& opened : std::exchange(channel->opening, {})) {
    shared_.later.call([opened = std::move(opened), reason] { opened(reason); });
  }
  for (const auto& [number, file] : channel->files) {
    if (file.mapping) mapped_bytes_ -= file.mapping->bytes().size();
  }
  channel->files.clear();
  for (auto row = rows_.begin(); row != rows_.end();) {
    const auto each = row++;
    if (each->second.channel == channel && each->second.copies == 0) {
      stop(each, reason, lost);
    }
  }
}

// Unmaps the least recently used mappings that no reader uses.
void ShmReceiver::evict() {
  while (mapped_bytes_ > max_mapped_bytes_) {
    Channel* of = nullptr;
    std::map<std::uint64_t, File>::iterator oldest;
    for (const auto& [key, channel] : channels_) {
      for (auto file = channel->files.begin(); file != channel->files.end(); ++file) {
        if (!file->second.mapping || file->second.mapping.use_count() > 1) continue;
        if (of != nullptr && oldest->second.used < file->second.used) continue;
        of = channel.get();
        oldest = file;
      }
    }
    if (of == nullptr) return;
    mapped_bytes_ -= oldest->second.mapping->bytes().size();
    of->files.erase(oldest);
  }
}

// Ends the operations that wait for a silent holder. A stop of this process does not count as
// silence of the holder.
void ShmReceiver::check() {
  const Time now = monotonic_now();
  const Duration gap = shared_.loop.last_turn().gap;
  const Duration deaf = gap > peer_gap_threshold ? gap : Duration(0);
  bool waits = false;
  std::vector<ChannelPtr> late;
  for (const auto& [key, channel] : channels_) {
    if (channel->welcome) continue;
    channel->deadline = channel->deadline + deaf;
    waits = true;
    if (now > channel->deadline) late.push_back(channel);
  }
  for (const ChannelPtr& channel : late) {
    drop_channel(channel,
                 failure(ErrorCode::timed_out,
                         fmt::format("process {} does not reply", channel->key.peer.brief())),
                 false);
  }
  for (auto at = rows_.begin(); at != rows_.end();) {
    const auto each = at++;
    Row& row = each->second;
    if (row.copies > 0) continue;
    row.silence_timeout += deaf;
    waits = true;
    if (now - row.since <= row.silence_timeout) continue;
    stop(each, failure(ErrorCode::timed_out, "the holder does not reply"), false);
  }
  if (waits) check_timer_.arm(now + receiver_check_interval);
}

}  // namespace mobula::internal
