// I/O thread of the tcp transport with its own connections. It sends offered chunks and pulls
// chunks, and encrypts and decrypts them. Chunks of devices pass through a stage (chunk_stage.h);
// one is requested only after a buffer is reserved.
// Thread: the transport's thread, except adopt(), which is for any. Callbacks run on the lane's
// thread.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device/near_gpu.h"
#include "transport/bulk/bulk_client.h"
#include "transport/bulk/bulk_server.h"
#include "transport/loop/loop_thread.h"
#include "transport/tensor/first_touch.h"
#include "transport/tensor/lane.h"
#include "transport/tensor/mailbox.h"
#include "transport/tensor/tcp/tcp_offers.h"

namespace mobula::internal {

class TcpLane final : public Lane {
 public:
  // `hand_over` may move a new connection to another lane, see BulkServerCallbacks. `cpus`: as in
  // TcpOptions.
  static Result<std::unique_ptr<TcpLane>> start(TcpOffers& offers,
                                                std::function<bool(Fd&)> hand_over,
                                                const CpuList& cpus = {});
  ~TcpLane() override;
  TcpLane(const TcpLane&) = delete;
  TcpLane& operator=(const TcpLane&) = delete;

  // Waits for the lane and possibly for name servers, so it is meant for startup.
  Result<std::string> listen(const std::string& address);
  void adopt(Fd socket);
  void begin(LaneShare share) override;
  void cancel(TransferId transfer) override;
  void forget(const ChannelKey& channel) override;

 private:
  // Contains all fields of the offer handle, so that a wrong handle cannot break the connection of
  // valid ones.
  struct StreamKey {
    ChannelKey channel;
    TcpRight right;
    friend auto operator<=>(const StreamKey&, const StreamKey&) = default;
  };
  struct Stream {
    std::unique_ptr<BulkClient> client;
    std::deque<TransferId> turns;  // transfers with chunks to request
    std::size_t chunks = 0;        // requested
    std::uint64_t bytes = 0;
    std::uint64_t received = 0;  // at the last check
  };
  struct UnderWay {
    BulkFetchId fetch;
    StagedChunk buffer = {};  // buffer of a chunk for a device
  };
  struct Row {
    LaneShare share;
    StreamKey stream;
    std::size_t next = 0;                       // next chunk to request
    std::map<std::size_t, UnderWay> under_way;  // by chunk
    std::size_t writing = 0;                    // chunks being copied to a device
    std::optional<Result<void>> over;           // result, reported once nothing is written
    Time began;
    Time moved;
  };
  enum class RequestResult { sent, no_space, refused };

  TcpLane(TcpOffers& offers, std::unique_ptr<LoopThread> thread);
  void open(std::function<bool(Fd&)> hand_over);
  void close();
  void add(LaneShare share);
  Stream& stream_of(const LaneShare& share);
  void fill(const StreamKey& key);
  void on_request(BulkExchange exchange, const std::string& principal,
                  std::span<const std::byte> request);
  RequestResult request(Stream& stream, Row& row);
  std::optional<StagedChunk> allocate_for(const Row& row, std::uint64_t size);
  void fill_all();
  void on_done(TransferId transfer, std::size_t chunk, const Result<void>& result);
  void write(Row& row, std::size_t chunk, StagedChunk buffer);
  void on_written(TransferId transfer, const Result<void>& result);
  void end(TransferId transfer, const Result<void>& result);
  void finish_if_over(std::map<TransferId, Row>::iterator at);
  void check();

  TcpOffers& offers_;
  std::unique_ptr<LoopThread> thread_;
  std::shared_ptr<Mailbox> box_;  // shared with posted tasks

  // Lane's thread.
  std::unique_ptr<BulkServer> server_;
  std::map<StreamKey, Stream> streams_;
  std::map<TransferId, Row> rows_;
  std::set<const ChunkStage*> awaited_;  // stages that will report a free buffer
  std::unique_ptr<Timer> check_timer_;
  FirstTouch first_touch_;
};

}  // namespace mobula::internal
