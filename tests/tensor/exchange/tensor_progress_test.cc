// Progress of tensors in transit: the rows, and the values that the exchange writes.
#include "tensor/exchange/tensor_progress.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>

#include "base/fd.h"
#include "tensor/exchange/exchange_process.h"

namespace mobula::internal::exchange {
namespace {

RefRecord ref_of(std::uint64_t object, std::int64_t size_bytes) {
  RefRecord ref{ObjectId::of(object), NodeId::of(1), ProcessId::of(9), {}};
  ref.tensor = TensorRecord{size_bytes, false, {.direct = true}, {}};
  return ref;
}

TEST(TensorProgress, ListsPullFromRequestToEnd) {
  TensorProgress progress;
  progress.pull(Time::from_ns(5), 1, {ref_of(7, 100), ref_of(8, 200)});
  progress.pull(Time::from_ns(6), 2, {ref_of(7, 100)});
  ASSERT_EQ(progress.rows().size(), 3u) << "the same tensor may be wanted twice";
  EXPECT_FALSE(progress.rows()[0].began);
  EXPECT_EQ(progress.rows()[0].wanted, Time::from_ns(5));
  EXPECT_EQ(progress.rows()[0].holder, ProcessId::of(9));
  progress.moves(Time::from_ns(10), 1, ObjectId::of(7), DirectPath::shm);
  progress.more(1, ObjectId::of(7), 30);
  progress.moves(Time::from_ns(20), 1, ObjectId::of(7), DirectPath::tcp);
  progress.more(1, ObjectId::of(7), 40);
  const auto row = progress.rows()[0];
  EXPECT_EQ(row.began, Time::from_ns(10));
  EXPECT_EQ(row.path, DirectPath::tcp) << "the path of the current attempt";
  EXPECT_EQ(row.there_bytes, 70u);
  EXPECT_EQ(row.size_bytes, 100u);
  progress.there(1, ObjectId::of(8), 50);
  progress.there(1, ObjectId::of(8), 20);
  EXPECT_EQ(progress.rows()[1].there_bytes, 20u) << "a try that begins again";
  progress.over(1, ObjectId::of(7));
  EXPECT_EQ(progress.rows().size(), 2u);
  progress.over(1);
  progress.moves(Time::from_ns(30), 1, ObjectId::of(8), DirectPath::tcp);  // too late
  ASSERT_EQ(progress.rows().size(), 1u);
  EXPECT_FALSE(progress.rows()[0].began) << "the late call is for the other request";
}

// Observes a tensor that arrives in chunks until it is half complete. The observed value never
// decreases.
TEST(TensorProgress, ReportsArrivedChunks) {
  const Directory directory;
  const auto member = [](std::uint64_t number) {
    return Member{.number = number,
                  .node = number,
                  .own_host = "host" + std::to_string(number),
                  .chunk_bytes = 64 << 10};
  };
  constexpr std::size_t all = 128 * (64 << 10);
  Process maker(directory.path(), member(1)), reader(directory.path(), member(2));
  bool half_way = false;
  for (std::uint64_t object = 1; object <= 100 && !half_way; ++object) {
    const auto ref =
        maker.register_tensor(object, all, true, {.direct = true, .named = DirectPath::tcp});
    reader.exchange().pull(object, {ref}, false);
    std::uint64_t before = 0;
    for (auto rows = reader.exchange().under_way(); !rows.empty();
         rows = reader.exchange().under_way()) {
      ASSERT_EQ(rows.size(), 1u);
      EXPECT_EQ(rows[0].size_bytes, all);
      ASSERT_GE(rows[0].there_bytes, before);
      before = rows[0].there_bytes;
      half_way = half_way ||
                 (before > 0 && before < all && rows[0].began && rows[0].path == DirectPath::tcp);
    }
    ASSERT_TRUE(is_numbered(reader.wait_for(1).front(), object, all));
    maker.exchange().unregister(ObjectId::of(object));
  }
  EXPECT_TRUE(half_way);
  EXPECT_TRUE(reader.exchange().under_way().empty());
}

// A holder that accepts the connection and sends nothing.
TEST(TensorProgress, Unanswered_HasNotBegunAndCancelRemovesIt) {
  const Directory directory;
  const Fd silent(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = directory.path() + "/silent";
  std::copy(path.begin(), path.end(), address.sun_path);
  ASSERT_EQ(::bind(silent.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(silent.get(), 8), 0);
  Process reader(directory.path(), {.number = 2});
  RefRecord ref = ref_of(7, 1000);
  ref.tensor.edit().holder = Endpoint{ProcessId::of(9), NodeId::of(1), path, {}, {}};
  reader.exchange().pull(1, {ref}, false);
  ASSERT_EQ(reader.exchange().under_way().size(), 1u);
  EXPECT_FALSE(reader.exchange().under_way()[0].began);
  reader.exchange().cancel(1);
  EXPECT_TRUE(reader.exchange().under_way().empty());
}

}  // namespace
}  // namespace mobula::internal::exchange
