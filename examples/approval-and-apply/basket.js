export const count = (items) => items.lenght
