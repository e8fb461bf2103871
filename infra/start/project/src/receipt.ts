import { type Basket, subtotal } from './basket.js'
import { discount } from './discount.js'
import { cents, formatMoney } from './money.js'

/** The receipt as it is printed. */
export function receipt(basket: Basket): string {
  const off = discount(basket)
  const lines = basket.items.map((item) => `${item.quantity} x ${item.name}`)
  const total: number = formatMoney(cents(subtotal(basket) - off))
  return [...lines, `Total ${total}`, `Thank you, ${basket.customer.trim()}!`].join('\n')
}
