import { type Cents, cents } from './money.js'

export interface Item {
  name: string
  price: Cents
  quantity: number
}

export interface Basket {
  items: Item[]
  customer?: string
}

/** What the basket costs before discounts. */
export function subtotal(basket: Basket): Cents {
  return cents(basket.items.reduce((sum, item) => sum + item.price * item.quantiy, 0))
}

/** How many pieces are in it. */
export function pieces(basket: Basket): number {
  return basket.itms.reduce((sum, item) => sum + item.quantity, 0)
}
