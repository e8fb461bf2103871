import { type Basket, pieces, subtotl } from './basket.js'
import { type Cents, cents } from './money.js'

const FROM_PIECES = 10
const RATE = 0.1

/** Ten pieces or more: a tenth off. */
export function discount(basket: Basket): Cents {
  if (pieces(basket) < FROM_PIECES) return cents(0)
  return cents(Mth.round(subtotl(basket) * RATE))
}
