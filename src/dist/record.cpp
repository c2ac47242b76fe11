#include "dist/record.h"

#include <algorithm>

namespace stator::dist {

namespace {

// Numbers in 7-bit groups, the sign folded into the lowest bit: sizes take a byte or two.
void putNumber(std::string& out, int64_t number) {
  uint64_t folded = (static_cast<uint64_t>(number) << 1) ^ static_cast<uint64_t>(number >> 63);
  while (folded >= 0x80) {
    out += static_cast<char>(folded | 0x80);
    folded >>= 7;
  }
  out += static_cast<char>(folded);
}

void putText(std::string& out, std::string_view text) {
  text = text.substr(0, kLongestText);
  putNumber(out, static_cast<int64_t>(text.size()));
  out += text;
}

// Reads what may be anything: `good` turns false at the first thing that cannot be.
struct Reader {
  std::string_view rest;
  bool good = true;

  int64_t number() {
    uint64_t folded = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest.empty()) break;
      const auto byte = static_cast<unsigned char>(rest.front());
      rest.remove_prefix(1);
      folded |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return static_cast<int64_t>((folded >> 1) ^ (~(folded & 1) + 1));
    }
    good = false;
    return 0;
  }
  int64_t within(int64_t most) {
    const int64_t value = number();
    if (value < 0 || value > most) good = false;
    return good ? value : 0;
  }
  std::string text() {
    const auto length = static_cast<size_t>(within(kLongestText));
    if (length > rest.size()) good = false;
    if (!good) return "";
    std::string taken(rest.substr(0, length));
    rest.remove_prefix(length);
    return taken;
  }
};

}  // namespace

std::string Record::encode() const {
  std::string out;
  putNumber(out, rank);
  putNumber(out, static_cast<int64_t>(topic));
  putNumber(out, static_cast<int64_t>(outcome));
  putText(out, site);
  putText(out, exit);
  putNumber(out, static_cast<int64_t>(structure));
  putNumber(out, static_cast<int64_t>(guards));
  putNumber(out, calls);
  std::string body;
  int64_t kept = 0;
  constexpr size_t kRoomForCounts = 20;
  for (const Item& item : items) {
    std::string one;
    putText(one, item.source);
    putNumber(one, static_cast<int64_t>(item.values.size()));
    for (int64_t value : item.values) putNumber(one, value);
    if (out.size() + body.size() + one.size() + kRoomForCounts > kLongestRecord) break;
    body += one;
    ++kept;
  }
  putNumber(out, kept);
  putNumber(out, items_left_out + static_cast<int64_t>(items.size()) - kept);
  return out + body;
}

Result<Record> Record::decode(std::string_view bytes) {
  if (bytes.size() > kLongestRecord) return NotApplicable{"longer than a record may be"};
  Reader reader{bytes};
  Record record;
  record.rank = reader.within(INT64_MAX);
  record.topic = static_cast<Topic>(reader.within(static_cast<int64_t>(Topic::kGuards)));
  record.outcome = static_cast<Outcome>(reader.within(static_cast<int64_t>(Outcome::kMiss)));
  record.site = reader.text();
  record.exit = reader.text();
  record.structure = static_cast<uint64_t>(reader.number());
  record.guards = static_cast<uint64_t>(reader.number());
  record.calls = reader.number();
  const int64_t count = reader.within(kLongestRecord);
  record.items_left_out = reader.within(INT64_MAX);
  for (int64_t i = 0; i < count && reader.good; ++i) {
    Item item;
    item.source = reader.text();
    const int64_t values = reader.within(kLongestRecord);
    for (int64_t k = 0; k < values && reader.good; ++k) item.values.push_back(reader.number());
    record.items.push_back(std::move(item));
  }
  if (!reader.good) return NotApplicable{"not the bytes of a record"};
  return record;
}

}  // namespace stator::dist
