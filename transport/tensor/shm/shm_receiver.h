// Receiver side of shm and cuda_ipc: channels to holders, mappings of their files, pulls, and maps.
// Thread: the event loop; callbacks run through `Later`.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "transport/local/local_link.h"
#include "transport/tensor/copy_threads.h"
#include "transport/tensor/deferred_calls.h"
#include "transport/tensor/shm/shm_holder.h"
#include "transport/tensor/shm/shm_wire.h"
#include "transport/tensor/tensor_transport.h"

namespace mobula::internal {

// Period of the checks for silent holders.
inline constexpr Duration receiver_check_interval = 100ms;

class ShmReceiver {
 public:
  // Above `max_mapped_bytes`, mappings without readers are unmapped.
  ShmReceiver(ShmShared shared, std::uint64_t max_mapped_bytes);
  ~ShmReceiver();
  ShmReceiver(const ShmReceiver&) = delete;
  ShmReceiver& operator=(const ShmReceiver&) = delete;

  void open(const ChannelKey& key, const Peer& peer, Time deadline, TensorTransport::Opened opened);
  void close(const ChannelKey& key);
  void pull(Pull pull, TensorTransport::Ended ended);
  void map(TransferId transfer, const ChannelKey& from, std::span<const std::byte> ticket,
           TensorTransport::Mapped mapped);
  void cancel(TransferId transfer, TensorTransport::Quiet quiet);
  // Closes the channels to this peer, or all if null. Their pulls end with `why`.
  void end_all(const ProcessId* peer, const Failure& why, const QuietGate& gate);

  std::size_t channels() const { return channels_.size(); }
  std::vector<TransferId> pulls() const;
  std::uint64_t mapped_bytes() const { return mapped_bytes_; }

 private:
  struct File {
    std::shared_ptr<const ReadMapping> mapping;  // shared with its readers
    bool coming = false;                         // its descriptor arrived and is being mapped
    std::uint64_t used = 0;                      // value of `uses_` at the last use
  };
  struct Channel {
    ChannelKey key;
    std::unique_ptr<LocalLink> link;
    bool welcome = false;
    Hash128 ticket_key;
    pid_t process = 0;
    bool reads = false;  // the memory of the holder is readable, as tested
    Fd alive;            // pidfd of the holder, to detect its end
    Time since;
    Time deadline;
    std::vector<TensorTransport::Opened> opening;
    std::map<std::uint64_t, File> files;
  };
  using ChannelPtr = std::shared_ptr<Channel>;  // shared with pulls that outlive it
  struct Row {
    ChannelPtr channel;
    ShmTicket ticket;
    Blob sealed_ticket;  // kept until its checksum is verified
    std::vector<TargetRegion> targets;
    TensorTransport::Ended ended;                                       // for a pull
    TensorTransport::Mapped mapped;                                     // for a map
    std::map<std::uint64_t, std::shared_ptr<const ReadMapping>> files;  // shared file mappings
    std::size_t lacks = 0;   // files requested, not yet mapped
    std::size_t copies = 0;  // in progress: from files, from the process
    std::vector<std::uint64_t> copy;
    std::optional<Failure> why;  // result if it was stopped
    bool lost = false;
    bool reads_process = false;
    Time since;
    Duration silence_timeout{0};
    Time began;
    std::uint64_t bytes = 0;
    std::vector<TensorTransport::Quiet> quiet;
  };
  using RowAt = std::map<TransferId, Row>::iterator;

  Result<void> drop_lower_epochs(const ChannelKey& key);
  Result<void> connect(Channel& channel, const ShmEndpoint& holder);
  void on_frame(const ChannelPtr& channel, LocalFrame frame);
  Result<void> on_welcome(Channel& channel, const ShmWelcome& welcome);
  void try_reading(Channel& channel, const ShmWelcome& welcome);
  Result<void> on_file(const ChannelPtr& channel, const ShmFile& file, LocalFrame& frame);
  void on_mapped(Channel& channel, const ShmFile& file,
                 const Result<std::shared_ptr<const ReadMapping>>& mapping);
  void forget_file(Channel& channel, std::uint64_t number);
  void on_refusal(Channel& channel, const ShmRefusal& refusal);
  void drop_channel(const ChannelPtr& channel, const Failure& why, bool lost);
  Result<Row> make_row(TransferId transfer, const ChannelKey& from,
                       std::span<const std::byte> ticket);
  void add(TransferId transfer, Row row);
  void gather(RowAt at);
  Result<bool> has_file(Row& row, const ShmFileRef& ref);
  void files_there(Channel& channel, std::uint64_t number);
  void begin(RowAt at);
  Result<std::vector<Copy>> copies_of(Row& row);
  void give_map(RowAt at);
  void on_copied(TransferId transfer, const CopyEnd& end);
  void finish(RowAt at);
  Result<void> still_right(const Row& row) const;
  void stop(RowAt at, const Failure& why, bool lost);
  void end(RowAt at, const Result<void>& result, Time ended);
  void evict();
  void check();

  ShmShared shared_;
  const std::uint64_t max_mapped_bytes_;
  std::map<ChannelKey, ChannelPtr> channels_;
  std::map<TransferId, Row> rows_;
  std::uint64_t mapped_bytes_ = 0;
  std::uint64_t uses_ = 0;
  Timer check_timer_;
};

}  // namespace mobula::internal
