#include "nimble/encoding/core/side_by_side.h"

#include <algorithm>

#include "nimble/encoding/core/part.h"

namespace nimble {
namespace {

// A part and its cuts: the piece for rows [i, i + 1) * step of the segment is
// [cuts[i], cuts[i + 1]).
struct CutPart {
  uint64_t begin, end;  // in the old body
  std::vector<uint64_t> cuts;
  uint64_t reached = 0;  // end of the bytes needed so far
  uint64_t needed = 0;   // bytes needed by the row in question
  struct Piece {
    uint64_t begin, size;  // in the new body
  };
  std::vector<Piece> pieces;

  // True if the part is not cut: all rows need it, or only the first rows do.
  bool is_whole() const { return cuts[1] == end; }
};

class Layout {
 public:
  Layout(std::span<const SegmentHead> segments, ByteBuffer* body, uint64_t near)
      : segments_(segments), body_(*body), near_(near) {}

  Result<bool> run() {
    NIMBLE_RETURN_IF_ERROR(open());
    if (parts_.size() < 2) return false;
    cut();
    // Interleaving needs at least two parts that are cut.
    const auto whole = std::stable_partition(
        parts_.begin(), parts_.end(),
        [](const CutPart& part) { return part.is_whole(); });
    if (parts_.end() - whole < 2 || !is_near()) return false;
    move();
    write_heads();
    return true;
  }

 private:
  Status open() {
    for (const SegmentHead& segment : segments_) {
      DecodeContext context;
      context.type = segment.type;
      context.num_values = segment.size;
      context.body_size = segment.end - segment.begin;
      std::vector<PartPlace>& places = places_.emplace_back();
      context.parts = &places;
      ByteReader head(segment.head->span());
      NIMBLE_ASSIGN_OR_RETURN(std::unique_ptr<Decoder> decoder,
                              open_decoder(&head, context));
      decoders_.push_back(std::move(decoder));
      for (PartPlace& part : places) {
        part.begin += segment.begin;
        if (part.size > 0 && !find(part.begin)) {
          parts_.push_back({part.begin, part.begin + part.size, {}, 0, 0, {}});
        }
      }
    }
    std::sort(
        parts_.begin(), parts_.end(),
        [](const CutPart& a, const CutPart& b) { return a.begin < b.begin; });
    return Status::ok();
  }

  CutPart* find(uint64_t begin) {
    for (CutPart& part : parts_) {
      if (part.begin == begin) return &part;
    }
    return nullptr;
  }

  // Cuts each part at the end of the bytes that the rows of each step need.
  void cut() {
    const uint32_t rows = segments_[0].size;
    const uint64_t blocks = div_ceil(rows, kBlockValues);
    const uint64_t steps = div_ceil(body_.size(), near_);
    step_ = static_cast<uint32_t>(std::max<uint64_t>(blocks / steps, 1) *
                                  kBlockValues);
    for (CutPart& part : parts_) part.reached = part.begin;
    for (uint32_t row = 0; row < rows; row += step_) {
      for (CutPart& part : parts_) part.cuts.push_back(part.reached);
      reach(row, std::min(rows, row + step_));
    }
    for (CutPart& part : parts_) part.cuts.push_back(part.end);
  }

  // Calls f(part, begin, end) for the bytes that rows [begin, end) need.
  template <class F>
  void for_needs(uint32_t begin, uint32_t end, F&& f) {
    for (size_t s = 0; s < segments_.size(); ++s) {
      std::vector<ByteRange> ranges;
      decoders_[s]->append_ranges(begin, end, &ranges);
      for (const ByteRange& range : ranges) {
        for (CutPart& part : parts_) {
          const uint64_t from =
              std::max(part.begin, range.begin + segments_[s].begin);
          const uint64_t to =
              std::min(part.end, range.end + segments_[s].begin);
          if (from < to) f(&part, from, to);
        }
      }
    }
  }

  // Moves `reached` of each part past the bytes that rows [begin, end) need.
  void reach(uint32_t begin, uint32_t end) {
    for_needs(begin, end, [](CutPart* part, uint64_t, uint64_t to) {
      part->reached = std::max(part->reached, to);
    });
  }

  // Whether one read covers the bytes that a row needs from cut parts. Measures
  // the bytes between them for the middle row of each step. Returns false for
  // long strings, because their blocks have fewer rows than a step.
  bool is_near() {
    const size_t steps = parts_[0].cuts.size() - 1;
    uint64_t between = 0;
    for (size_t i = 0; i < steps; ++i) {
      const auto row = static_cast<uint32_t>(i * step_);
      const uint32_t middle = std::min(row + step_ / 2, segments_[0].size - 1);
      for (CutPart& part : parts_) {
        part.needed = 0;
        if (!part.is_whole()) between += part.cuts[i + 1] - part.cuts[i];
      }
      for_needs(middle, middle + 1,
                [](CutPart* part, uint64_t from, uint64_t to) {
                  if (!part->is_whole()) {
                    part->needed = std::max(part->needed, to - from);
                  }
                });
      for (const CutPart& part : parts_) {
        between -= std::min(part.needed, between);
      }
    }
    return between / steps <= 2 * kNearBytes;
  }

  // Writes whole parts first.
  void move() {
    ByteBuffer moved;
    const size_t steps = parts_[0].cuts.size() - 1;
    for (size_t step = 0; step < steps; ++step) {
      for (CutPart& part : parts_) {
        const uint64_t size = part.cuts[step + 1] - part.cuts[step];
        if (size == 0) continue;
        moved.align(8);
        const uint64_t begin = moved.size();
        moved.put_bytes(body_.data() + part.cuts[step], size);
        if (!part.pieces.empty()) {
          CutPart::Piece& before = part.pieces.back();
          if (before.begin + before.size == begin) {  // they are adjacent
            before.size += size;
            continue;
          }
        }
        part.pieces.push_back({begin, size});
      }
    }
    body_ = std::move(moved);
  }

  void write_heads() {
    for (size_t s = 0; s < segments_.size(); ++s) {
      ByteBuffer& head = *segments_[s].head;
      ByteBuffer out;
      size_t from = 0;
      for (const PartPlace& place : places_[s]) {
        out.put_bytes(head.data() + from, place.head_begin - from);
        from = place.head_end;
        write_part(place.size > 0 ? find(place.begin) : nullptr, &out);
      }
      out.put_bytes(head.data() + from, head.size() - from);
      head = std::move(out);
    }
  }

  static void write_part(const CutPart* part, ByteBuffer* out) {
    if (part == nullptr || part->pieces.size() == 1) {
      out->put_varint(part == nullptr ? 0 : part->pieces[0].begin);
      out->put_varint(part == nullptr ? 0 : part->pieces[0].size);
      return;
    }
    out->put_varint(Part::kInPieces);
    out->put_varint(part->pieces.size());
    uint64_t after = 0;
    for (const CutPart::Piece& piece : part->pieces) {
      out->put_varint((piece.begin - after) / 8);
      out->put_varint(piece.size);
      after = (piece.begin + piece.size + 7) / 8 * 8;
    }
  }

  std::span<const SegmentHead> segments_;
  ByteBuffer& body_;
  uint64_t near_;
  uint32_t step_ = 0;                           // rows between two cuts
  std::vector<std::vector<PartPlace>> places_;  // one list per segment
  std::vector<std::unique_ptr<Decoder>> decoders_;
  std::vector<CutPart> parts_;
};

}  // namespace

Result<bool> lay_side_by_side(std::span<const SegmentHead> segments,
                              ByteBuffer* body, uint64_t near) {
  if (body->size() <= near) return false;
  return Layout(segments, body, near).run();
}

}  // namespace nimble
