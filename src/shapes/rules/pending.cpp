#include "shapes/call.h"
namespace stator::shapes {
#define P(n) std::span<const OpRow> n() { return {}; }
P(viewRows) P(castRows) P(reductionRows) P(matmulRows) P(normRows) P(functionalRows) P(indexingRows) P(factoryRows) P(queryRows)
}
